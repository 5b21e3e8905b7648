"""Counters of compiles: a file per build of lines, each a number and what it counts. Lines of one name are summed."""

from __future__ import annotations

import os

from mlgo_clang.files import cache_folder, host_id, lock, read_untrusted, remove_file, write_atomically

_LARGEST = 1 << 20
_LARGEST_SUMS = 1 << 16
_KNOWN_BUILDS = 64
_WARNED = ".warned"


def counters_folder() -> str:
    """Return the folder of the counters."""
    return os.path.join(cache_folder(), "mlgo-clang", "builds")


def count(*names: str, number: int = 1) -> None:
    """Add a number to each counter, whose name has no line break; without a writable cache nothing is counted."""
    try:
        descriptor, path = _open("", 0)
        try:
            # Compiles count at the same time: the kernel appends a short text at once.
            os.write(descriptor, _lines(dict.fromkeys(names, number)))
            if os.fstat(descriptor).st_size > _LARGEST and lock(descriptor, 0):
                sums = _lines(parse(read_untrusted(path)))
                # A count of another compile in this moment is lost.
                write_atomically(path, sums[: sums.rfind(b"\n", 0, _LARGEST_SUMS) + 1])
        finally:
            os.close(descriptor)
    except OSError:
        return


def _open(suffix: str, flags: int) -> tuple[int, str]:
    """Open a file of this build for appending, and return its descriptor and path; old builds are forgotten."""
    folder = counters_folder()
    path = os.path.join(folder, _build() + suffix)
    flags |= os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    if not flags & os.O_EXCL:
        try:
            return os.open(path, flags), path
        except FileNotFoundError:
            pass
    os.makedirs(folder, exist_ok=True)
    for name in _by_use(folder)[:-_KNOWN_BUILDS]:
        remove_file(os.path.join(folder, name))
    return os.open(path, flags | os.O_CREAT, 0o644), path


def _by_use(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [name for _, name in sorted((entry.stat().st_mtime_ns, entry.name) for entry in entries)]


_BUILDERS = frozenset(
    b"make gmake bmake ninja samu cmake ctest meson cargo bazel buck2 scons waf xmake b2 tup redo gradle".split()
)
"""Programs that run builds, by the first fifteen bytes of their names."""
_CACHES = frozenset((b"ccache", b"distcc", b"icecc"))


def is_first_of_build(problem: str = "") -> bool:
    """Return whether no other process of this build got True for a problem; without a writable cache each does.

    The build is the outermost process of those above this one that is a known program, else the parent.
    """
    try:
        os.close(_open(f"{problem}{_WARNED}", os.O_EXCL)[0])
    except FileExistsError:
        return False
    except OSError:
        return True
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


def read_counters(*, last: bool = False) -> dict[str, int]:
    """Return the counters of all known builds, summed by name; or of the last one."""
    folder, data = counters_folder(), b""
    try:
        names = [name for name in _by_use(folder) if not name.endswith(_WARNED)]
        for name in names[-1:] if last else names:
            data += read_untrusted(os.path.join(folder, name)) + b"\n"
    except OSError:
        return {}
    return parse(data)


def remove_counters() -> None:
    """Reset all counters."""
    folder = counters_folder()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if not name.endswith(_WARNED):
            remove_file(os.path.join(folder, name))


def parse(data: bytes) -> dict[str, int]:
    """Return the counters in the contents of the file, summed by name; other lines are ignored."""
    counters: dict[str, int] = {}
    for line in data.decode(errors="replace").splitlines():
        number, blank, name = line.partition(" ")
        if blank and name and number.isdigit():
            counters[name] = counters.get(name, 0) + int(number)
    return counters
