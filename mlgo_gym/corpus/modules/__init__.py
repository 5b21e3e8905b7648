"""Corpora of modules: open, sample, split, check, describe."""
