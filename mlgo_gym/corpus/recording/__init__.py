"""Corpora from builds.

`record` runs a build with compiler shims (`shim`, `shim_links`, `path_interception`), `recorder` collects their records
into a corpus, and `links` and `relink` repeat its link steps. `extract` reads finished builds instead.
"""
