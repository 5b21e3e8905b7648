"""Other libraries learn with our environments."""
