"""Counters of compiles: a file of lines, each a number and what it counts. Lines of one name are summed."""

from __future__ import annotations

import os

from mlgo_clang.files import cache_folder, lock, read_untrusted, write_atomically

_LARGEST = 1 << 20
_LARGEST_SUMS = 1 << 16


def counters_path() -> str:
    """Return the path of the file of counters."""
    return os.path.join(cache_folder(), "mlgo-clang", "counters")


def count(*names: str) -> None:
    """Add one to each counter, whose name has no line break; without a writable cache nothing is counted."""
    path = counters_path()
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            # Compiles count at the same time: the kernel appends a short text at once.
            os.write(descriptor, _lines(dict.fromkeys(names, 1)))
            if os.fstat(descriptor).st_size > _LARGEST and lock(descriptor, 0):
                # A count of another compile in this moment is lost.
                write_atomically(path, _lines(read_counters())[:_LARGEST_SUMS])
        finally:
            os.close(descriptor)
    except OSError:
        return


def _lines(counters: dict[str, int]) -> bytes:
    # The name of a file may have bytes that are not UTF-8.
    return "".join(f"{number} {name}\n" for name, number in counters.items()).encode(errors="backslashreplace")


def read_counters() -> dict[str, int]:
    """Return all counters."""
    try:
        return parse(read_untrusted(counters_path()))
    except OSError:
        return {}


def remove_counters() -> None:
    """Reset all counters."""
    if os.path.exists(counters_path()):
        os.unlink(counters_path())


def parse(data: bytes) -> dict[str, int]:
    """Return the counters in the contents of the file, summed by name; other lines are ignored."""
    counters: dict[str, int] = {}
    for line in data.decode(errors="replace").splitlines():
        number, blank, name = line.partition(" ")
        if blank and name and number.isdigit():
            counters[name] = counters.get(name, 0) + int(number)
    return counters
