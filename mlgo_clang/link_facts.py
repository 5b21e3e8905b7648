"""The file of link facts: per weak function, how often a build defines and uses it, and the functions that equal it.

`mlgo-gym link-facts` writes it. The first line is `mlgo-link-facts 4 LINES BYTES CRC32`; the numbers and the checksum
are those of the lines that follow. Each of these is `COPIES REFERENCES TWINS USE NAME`, sorted by the name's bytes.
Copies are objects of the build that define the function, and its twins: the functions with which the linker merges it.
Use is one of `USES`.

A line `0 0 0 KIND TEXT` describes the build. Kinds are `source`, the name of a source whose object the facts cover,
`compiler`, `target`, and `icf`, the mode of identical code folding.
"""

from __future__ import annotations

import os
import zlib

from mlgo_clang.errors import PolicyError
from mlgo_clang.files import read_untrusted

_MAGIC = b"mlgo-link-facts 4 "

OWN, ADDRESS, SHARED = USES = "own", "address", "shared"
"""Uses of a weak function: one object defines it and calls it; the same with its address taken; all others.

A function with twins is one of the others: the linker could not merge it if clang changed it as an internal one.

An entry of a vtable takes no address that a program compares.
"""

FEATURES = ("callee_copies", "callee_references")
"""The callee features with the two numbers.

Of a function that the facts do not contain they are 0. They are -1 if the facts cover its module, where plain clang
inlined every call of it, and without facts.
"""


_MACHINES = {"thumb": "arm", "arm64": "aarch64", "arm": "arm", "riscv": "riscv"}
"""Targets of facts by the beginning of a triple, where the two differ."""


def read_lines(path: str) -> bytes:
    """Return the lines of a file without the first one; raise `PolicyError` without a complete file."""
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
    line = b"0 0 0 source %s\n" % os.fsencode(os.path.basename(source))
    return lines.startswith(line) or b"\n" + line in lines


def folding_of(lines: bytes) -> str:
    """Return the mode of identical code folding of the facts: `none`, `safe` or `all`."""
    return next((mode for mode in ("safe", "all") if b"\n0 0 0 icf %s\n" % mode.encode() in b"\n" + lines), "none")


def other_origin(lines: bytes, version: str, triple: str) -> str:
    """Return compilers and targets of the facts if none of them is this version of clang, or the target of a triple.

    Empty if they fit, or if the facts do not know; vendors of one version of clang are not told apart.
    """
    compilers, targets = (
        [line.split(b" ", 4)[4].decode(errors="replace") for line in lines.splitlines() if line.startswith(start)]
        for start in (b"0 0 0 compiler ", b"0 0 0 target ")
    )
    versions = {name.partition("clang version ")[2].partition(" ")[0] for name in compilers}
    arch = triple.partition("-")[0]
    machine = "i386" if arch in ("i486", "i586", "i686") else next(filter(arch.startswith, _MACHINES), arch)
    fits = (not compilers or version in versions) and (not targets or _MACHINES.get(machine, machine) in targets)
    return "" if fits else f"{' and '.join(compilers)} for {' and '.join(targets)}"


def own_functions(lines: bytes) -> frozenset[bytes]:
    """Return the names of the functions that only one object defines and calls."""
    rows = (line.split(b" ", 4) for line in lines.splitlines() if b" own " in line)
    return frozenset(row[4] for row in rows if row[3] == b"own")


def with_header(lines: bytes) -> bytes:
    """Return the contents of a file with these lines."""
    return b"%s%d %d %08x\n%s" % (_MAGIC, lines.count(b"\n"), len(lines), zlib.crc32(lines), lines)
