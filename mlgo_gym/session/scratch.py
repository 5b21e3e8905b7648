"""Scratch folders for channels: in memory where there is a memory file system, and swept up after killed hosts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

from mlgo_gym.errors import CompilerError
from mlgo_gym.storage.leftovers import abandoned, own_prefix

_PREFIX = "mlgo-gym-"


def make_scratch() -> Path:
    """Make an empty folder for one compile, in that of this process; its owner removes it.

    Raises:
        OSError: it cannot be made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))
    except FileNotFoundError:
        # Somebody has tidied up.
        _make_root.cache_clear()
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))


def scratch_root() -> Path:
    """Return the folder in which this process makes all its scratch folders; it goes when the process ends."""
    return _make_root(scratch_parent(), os.getpid())


@lru_cache(maxsize=1)
def _make_root(parent: str, pid: int) -> Path:
    _sweep(parent)
    assert pid == os.getpid()
    root = Path(tempfile.mkdtemp(prefix=own_prefix(_PREFIX), dir=parent))
    # Unlike atexit this also runs at the end of processes that multiprocessing starts.
    Finalize(None, shutil.rmtree, args=(root,), kwargs={"ignore_errors": True}, exitpriority=0)
    return root


@lru_cache(maxsize=1)
def scratch_parent() -> str:
    """Return where scratch folders are made: `/dev/shm` if it can be written, else the temporary folder."""
    shared_memory = "/dev/shm"  # noqa: S108 - only mkdtemp makes folders there, for this user alone
    return shared_memory if os.access(shared_memory, os.W_OK | os.X_OK) else tempfile.gettempdir()


def _sweep(parent: str) -> None:
    """Remove, once per process, what hosts left behind that were killed, and end what still names it."""
    for folder in abandoned(Path(parent), _PREFIX):
        with contextlib.suppress(OSError):
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


def no_room(command: Sequence[str], error: OSError) -> CompilerError:
    """Return the error of a compile whose channels could not be made."""
    return CompilerError(
        f"a compile was to have its channels in {scratch_parent()} and its object in memory, and could not: {error}",
        kind="start",
        command=tuple(command),
    )
