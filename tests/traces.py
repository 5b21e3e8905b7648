"""Children, descriptors and scratch folders of this process, to compare before and after a test."""

import gc
import os
import select
from dataclasses import dataclass
from pathlib import Path

from mlgo_clang.files import scratch_parent


@dataclass(frozen=True)
class Traces:
    children: frozenset[int]
    descriptors: int
    scratch: frozenset[str]

    def __le__(self, before: "Traces") -> bool:
        """Whether nothing is left since `before`. Processes that ended meanwhile, such as Ray's, make no difference."""
        return (
            self.children <= before.children
            and self.descriptors <= before.descriptors
            and self.scratch <= before.scratch
        )


def traces() -> Traces:
    """Return the traces of this process after a garbage collection."""
    gc.collect()
    return Traces(children(), len(list(Path("/proc/self/fd").iterdir())), scratch_folders())


def children(pid: int | None = None) -> frozenset[int]:
    """Return the living and unreaped children of a process, by default of this one."""
    parent = os.getpid() if pid is None else pid
    try:
        # One file a thread, where the kernel has it, instead of one for each process of the machine.
        lists = [task.joinpath("children").read_text() for task in Path(f"/proc/{parent}/task").iterdir()]
    except OSError:
        return _children_among_all(parent)
    return frozenset(int(child) for text in lists for child in text.split())


def _children_among_all(parent: int) -> frozenset[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _status(entry)) and int(status[1]) == parent:
            found.add(int(entry.name))
    return frozenset(found)


def scratch_folders(pid: int | None = None) -> frozenset[str]:
    """Return the scratch folders of a process, by default of this one."""
    owner = os.getpid() if pid is None else pid
    return frozenset(folder.name for folder in Path(scratch_parent()).glob(f"mlgo-gym-{owner}-*/*"))


def alive(pid: int) -> bool:
    """Return whether a process exists and is not merely waiting to be reaped."""
    status = _status(Path("/proc", str(pid)))
    return status is not None and status[0] not in "ZX"


def ends_within(pid: int, seconds: float) -> bool:
    """Wait until a process ends, and return whether it did in time; it need not be a child of ours."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(pidfd)


def _status(entry: Path) -> list[str] | None:
    """Return the state and the parent of a process, and what follows in `/proc/PID/stat`."""
    try:
        return entry.joinpath("stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
