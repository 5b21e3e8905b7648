"""Scratch folders for channels, in memory if possible; those of killed processes are removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

from mlgo_clang.files import abandoned_folders, process_prefix, remove_folder, scratch_parent

_PREFIX = "mlgo-gym-"


def make_scratch() -> Path:
    """Make an empty folder for one compile in the scratch root, or raise `OSError`; the caller removes it."""
    try:
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))
    except FileNotFoundError:
        # Another program has removed the root.
        _make_root.cache_clear()
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))


def scratch_root() -> Path:
    """Return the folder with all scratch folders of this process; it is removed when the process exits."""
    return _make_root(scratch_parent(), os.getpid())


@lru_cache(maxsize=1)
def _make_root(parent: str, pid: int) -> Path:
    for folder in abandoned_folders(parent, _PREFIX):
        _kill_users_of(folder)
        remove_folder(folder)
    assert pid == os.getpid()
    root = Path(tempfile.mkdtemp(prefix=process_prefix(_PREFIX), dir=parent))
    # Unlike atexit this also runs in processes that multiprocessing starts.
    Finalize(None, shutil.rmtree, args=(root,), kwargs={"ignore_errors": True}, exitpriority=0)
    return root


def _kill_users_of(folder: str) -> None:
    """Kill this user's processes whose command line contains the folder, whose name is random and never reused."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit() or entry.stat().st_uid != os.getuid():
                continue
            if f"channel-base={folder}/".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
