"""Faults of compilers, machines and hosts: `catalogue.py` lists them for docs/explanation/faults.md."""
