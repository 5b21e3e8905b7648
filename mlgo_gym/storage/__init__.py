"""What is kept on disk: caches that no kill can tear, and files of JSON lines that are only ever added to."""
