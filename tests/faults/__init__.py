"""What happens when a compiler, a machine or a host fails: `catalogue.py` lists it, and docs/faults.md shows it."""
