"""The file of link facts: per weak function, the objects of a build that define it, and the references to it.

`mlgo-gym link-facts` writes it. The first line is `mlgo-link-facts 2 FUNCTIONS BYTES SHA256`; the numbers and the
digest are those of the lines that follow. Each of these is `COPIES REFERENCES NAME`, sorted by the bytes of the name.
"""

from __future__ import annotations

from mlgo_clang.errors import PolicyError

_MAGIC = b"mlgo-link-facts 2 "

FEATURES = ("callee_copies", "callee_references")
"""The callee features with the two numbers; -1 means unknown."""


def read_lines(path: str) -> bytes:
    """Return the lines of a file without the first one.

    Raises:
        PolicyError: there is no such file, or it is not complete.
    """
    try:
        with open(path, "rb") as file:
            header, _, lines = file.read().partition(b"\n")
    except OSError as error:
        raise PolicyError(
            f"expected a file of link facts, got {path}: {error.strerror}; run mlgo-gym link-facts"
        ) from None
    words = header.removeprefix(_MAGIC).split()
    if not header.startswith(_MAGIC) or len(words) != 3 or words[:2] != counts_of(lines):
        raise PolicyError(f"expected a complete file of link facts, got {path}; run mlgo-gym link-facts again")
    return lines


def counts_of(lines: bytes) -> list[bytes]:
    """Return the number of functions and of bytes, as in the first line."""
    return [b"%d" % lines.count(b"\n"), b"%d" % len(lines)]


def with_header(lines: bytes) -> bytes:
    """Return the contents of a file with these lines."""
    import hashlib

    return _MAGIC + b" ".join([*counts_of(lines), hashlib.sha256(lines).hexdigest().encode()]) + b"\n" + lines
