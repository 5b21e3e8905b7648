"""Counters of compiles: a small file of lines, each a number and what it counts."""

from __future__ import annotations

import os

from mlgo_clang.folders import cache_folder

_LARGEST = 1 << 16


def counters_path() -> str:
    """Return the path of the file of counters."""
    return os.path.join(cache_folder(), "mlgo-clang", "counters")


def count(*names: str) -> None:
    """Add one to each counter, whose name has no line break; without a writable cache nothing is counted.

    Several compiles may count at the same time.
    """
    import fcntl

    try:
        path = counters_path()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            counters = parse(os.pread(descriptor, _LARGEST, 0))
            for name in names:
                # The name of a file may have bytes that are not UTF-8.
                name = name.encode(errors="backslashreplace").decode()
                counters[name] = counters.get(name, 0) + 1
            text = "".join(f"{number} {name}\n" for name, number in counters.items()).encode()
            # Numbers only grow, so the new text covers the old one.
            os.pwrite(descriptor, text[:_LARGEST], 0)
        finally:
            os.close(descriptor)
    except OSError:
        return


def parse(data: bytes) -> dict[str, int]:
    """Return the counters in the contents of the file; other lines are ignored."""
    counters = {}
    for line in data.decode(errors="replace").splitlines():
        number, blank, name = line.partition(" ")
        if blank and name and number.isdigit():
            counters[name] = int(number)
    return counters
