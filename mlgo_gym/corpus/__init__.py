"""Corpora: bitcode modules with the flags they were compiled with, and where to get them."""
