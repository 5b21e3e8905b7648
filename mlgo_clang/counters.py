"""Counters of compiles: small files of lines, each a number and what it counts."""

from __future__ import annotations

import os

from mlgo_clang.files import cache_folder, lock

_LARGEST = 1 << 16
_LOCK_SECONDS = 0.5


def counters_path() -> str:
    """Return the path of the file of counters."""
    return os.path.join(cache_folder(), "mlgo-clang", "counters")


def _late_path() -> str:
    """Return the path of the counts that were made while another process held the lock and did not continue."""
    return f"{counters_path()}-late"


def count(*names: str) -> None:
    """Add one to each counter, whose name has no line break; without a writable cache nothing is counted.

    Several compiles may count at the same time.
    """
    try:
        path = counters_path()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # The name of a file may have bytes that are not UTF-8.
        names = tuple(name.encode(errors="backslashreplace").decode() for name in names)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not lock(descriptor, _LOCK_SECONDS):
                _count_late(names)
                return
            counters = parse(os.pread(descriptor, _LARGEST, 0))
            for name in names:
                counters[name] = counters.get(name, 0) + 1
            # Numbers only grow, so the new text covers the old one.
            os.pwrite(descriptor, _lines(counters)[:_LARGEST], 0)
        finally:
            os.close(descriptor)
    except OSError:
        return


def _count_late(names: tuple[str, ...]) -> None:
    """Append to a file that needs no lock: the kernel appends a short text at once."""
    descriptor = os.open(_late_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, _lines(dict.fromkeys(names, 1)))
    finally:
        os.close(descriptor)


def _lines(counters: dict[str, int]) -> bytes:
    return "".join(f"{number} {name}\n" for name, number in counters.items()).encode()


def read_counters() -> dict[str, int]:
    """Return all counters."""
    data = b""
    for path in (counters_path(), _late_path()):
        try:
            with open(path, "rb") as file:
                data += file.read()
        except FileNotFoundError:
            continue
    return parse(data)


def remove_counters() -> None:
    """Reset all counters."""
    for path in (counters_path(), _late_path()):
        if os.path.exists(path):
            os.unlink(path)


def parse(data: bytes) -> dict[str, int]:
    """Return the counters in the contents of the files, summed by name; other lines are ignored."""
    counters: dict[str, int] = {}
    for line in data.decode(errors="replace").splitlines():
        number, blank, name = line.partition(" ")
        if blank and name and number.isdigit():
            counters[name] = counters.get(name, 0) + int(number)
    return counters
