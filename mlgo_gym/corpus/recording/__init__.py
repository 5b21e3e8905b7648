"""Corpora from builds.

`record` runs a build with compiler shims (`shim`, `shim_records`, `link_records`), `recorder` collects
their records into a corpus, and `links` repeats its link steps.
"""
