"""Metrics beyond one object: the linked size, and runnable programs that are linked, run, checked and counted."""
