"""Storage: append-only files, temporary folders, and readers of untrusted files."""
