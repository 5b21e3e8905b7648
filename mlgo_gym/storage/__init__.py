"""Storage: a cache of JSON records, append-only files, temporary folders, and readers of untrusted files."""
