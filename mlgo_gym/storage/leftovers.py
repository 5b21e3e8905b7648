"""Folders that are filled and then renamed or removed, and what killed processes have left of such."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def make_own_folder(parent: Path, prefix: str) -> Path:
    """Make a folder `PREFIXpid-…`, after removing those of this user's processes that are gone.

    Args:
        parent: where.
        prefix: how its name begins; no other folder of the user's may be called so.
    """
    for folder in parent.glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).partition("-")[0]
        with suppress(OSError):
            if owner.isdigit() and not Path("/proc", owner).exists() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))
