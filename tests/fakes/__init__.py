"""Stand-ins for machines and hosts."""
