"""Snapshots: exact copies of a running clang, by ptrace."""
