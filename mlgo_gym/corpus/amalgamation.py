"""Take an amalgamation of a library apart again into the files it was made of."""

from __future__ import annotations

import posixpath
import re

from mlgo_gym.errors import CorpusError

_MARK = re.compile(r"/\*{4} (start inlining|ended inlining|skipping file:) (\S+) \*{4}/\n?")


def split_amalgamation(text: str) -> dict[str, str]:
    """Return the text of each file that zstd's `combine.py` put into one, by its path.

    The script writes `/**** start inlining PATH ****/` where it replaces an `#include`, `/**** ended inlining PATH
    ****/` after it, and `/**** skipping file: PATH ****/` where the file is already there; PATH is as the `#include`
    had it, relative to the file that includes. What stands outside of every such pair is left out.

    Raises:
        CorpusError: the marks are missing, or do not nest.
    """
    files: dict[str, list[str]] = {}
    open_files: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        if open_files:
            files[open_files[-1]].append(text[position : mark.start()])
        position = mark.end()
        kind, name = mark[1], mark[2]
        if kind == "ended inlining":
            if not open_files or not open_files[-1].endswith(name.rpartition("/")[2]):
                raise CorpusError(f"an amalgamation ends {name} where {open_files[-1:]} is open; it is not whole")
            open_files.pop()
            continue
        if open_files:
            files[open_files[-1]].append(f'#include "{name}"\n')
        if kind == "start inlining":
            parent = posixpath.dirname(open_files[-1]) if open_files else ""
            open_files.append(posixpath.normpath(posixpath.join(parent, name)))
            files[open_files[-1]] = []
    if open_files or not files:
        raise CorpusError("an amalgamation with marks of the files in it was wanted; it has none, or does not end one")
    return {path: "".join(parts) for path, parts in files.items()}
