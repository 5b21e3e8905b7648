"""One running clang: process, channels and decisions, every wait with a deadline; exact copies of one that waits."""
