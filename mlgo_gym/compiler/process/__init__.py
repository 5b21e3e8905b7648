"""Compiler processes: start, limits, confinement, and clean-up after kills and forks."""
