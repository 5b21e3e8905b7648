"""Scratch folders for channels: in memory where there is a memory file system, and swept up after killed hosts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from functools import lru_cache
from pathlib import Path

_PREFIX = "mlgo-gym-"


def make_scratch() -> Path:
    """Make an empty folder for one compile; its owner removes it."""
    parent = scratch_parent()
    _sweep(parent, os.getpid())
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


@lru_cache(maxsize=1)
def scratch_parent() -> str:
    """Return where scratch folders are made: `/dev/shm` if it can be written, else the temporary folder."""
    shared_memory = "/dev/shm"  # noqa: S108 - only mkdtemp makes folders there, for this user alone
    return shared_memory if os.access(shared_memory, os.W_OK | os.X_OK) else tempfile.gettempdir()


@lru_cache(maxsize=1)
def _sweep(parent: str, _pid: int) -> None:
    """End, once per process, what hosts left behind that were killed in the instant when a compiler was started.

    Its guard is set as soon as its process id is known; a kill before that leaves it waiting for its channels.
    """
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and not Path("/proc", owner).exists() and folder.stat().st_uid == os.getuid():
                _kill_those_that_name(folder)
                shutil.rmtree(folder)


def _kill_those_that_name(folder: Path) -> None:
    """Kill this user's processes whose command line names a scratch folder: names are drawn at random, once."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or entry.stat().st_uid != os.getuid():
                continue
            if f"channel-base={folder}/".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
