"""The file of link facts: per weak function, the objects of a build that define it, and the references to it.

`mlgo-gym link-facts` writes it. The first line is `mlgo-link-facts 2 FUNCTIONS BYTES SHA256`; the numbers and the
digest are those of the lines that follow. Each of these is `COPIES REFERENCES NAME`, sorted by the bytes of the name;
or `0 0 NAME` for the name of a source whose object they cover.
"""

from __future__ import annotations

import os

from mlgo_clang.errors import PolicyError
from mlgo_clang.files import digest_of, read_untrusted

_MAGIC = b"mlgo-link-facts 2 "

FEATURES = ("callee_copies", "callee_references")
"""The callee features with the two numbers.

Of a function that the facts do not contain they are 0. They are -1 if the facts cover its module, where plain clang
inlined every call of it, and without facts.
"""


def is_facts_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as one of link facts."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)).startswith(_MAGIC[:-2])


def read_lines(path: str) -> bytes:
    """Return the lines of a file without the first one.

    Raises:
        PolicyError: there is no such file, or it is not complete.
    """
    try:
        data = read_untrusted(path)
    except OSError as error:
        raise PolicyError(
            f"expected a file of link facts, got {path}: {error.strerror}; run mlgo-gym link-facts"
        ) from None
    lines = data.partition(b"\n")[2]
    if data != with_header(lines):
        raise PolicyError(f"expected a complete file of link facts, got {path}; run mlgo-gym link-facts again")
    return lines


def covers(lines: bytes, source: str) -> bool:
    """Return whether the lines name a source, by the last part of its path."""
    line = b"0 0 %s\n" % os.fsencode(os.path.basename(source))
    return lines.startswith(line) or b"\n" + line in lines


def with_header(lines: bytes) -> bytes:
    """Return the contents of a file with these lines."""
    return b"%s%d %d %s\n%s" % (_MAGIC, lines.count(b"\n"), len(lines), digest_of(lines).encode(), lines)
