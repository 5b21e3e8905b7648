"""Counters of compiles: a file of lines, each a number and what it counts. Lines of one name are summed."""

from __future__ import annotations

import os

from mlgo_clang.files import cache_folder, host_id, lock, read_untrusted, write_atomically

_LARGEST = 1 << 20
_LARGEST_SUMS = 1 << 16
_KNOWN_BUILDS = 64
_LOCK_SECONDS = 5.0


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


_BUILDERS = frozenset(
    b"make gmake bmake ninja samu cmake ctest meson cargo bazel buck2 scons waf xmake b2 tup redo gradle".split()
)
"""Programs that run builds, by the first fifteen bytes of their names."""
_CACHES = frozenset((b"ccache", b"distcc", b"icecc"))


def is_first_of_build() -> bool:
    """Return whether no other process of this build got True; without a writable cache each does.

    The build is the outermost process of those above this one that is a known program, else the parent.
    """
    build = _build()
    path = os.path.join(os.path.dirname(counters_path()), "warned")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+", errors="replace") as file:
            lock(file.fileno(), _LOCK_SECONDS)
            known = file.read().split()[-_KNOWN_BUILDS:]
            if build in known:
                return False
            file.seek(0)
            file.truncate()
            file.write(" ".join((*known, build)))
    except OSError:
        pass
    return True


def _build() -> str:
    """Return the identity of this process's build: that of a process with its start, since ids are used again."""
    pid, parent, outermost = os.getppid(), "", ""
    try:
        while pid > 0:
            with open(f"/proc/{pid}/stat", "rb") as file:
                head, _, rest = file.read().rpartition(b") ")
            name, fields = head.partition(b"(")[2], rest.split()
            identity = f"{pid}-{int(fields[19])}"
            parent = parent or ("" if name in _CACHES else identity)
            outermost = identity if name in _BUILDERS else outermost
            pid = int(fields[1])
    except (OSError, ValueError, IndexError):  # a process has exited, or another user's is hidden
        pass
    return f"{host_id()}-{outermost or parent}"


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
