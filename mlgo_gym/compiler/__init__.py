"""One running clang: its process, the interactive protocol, and snapshots."""
