"""Folders that are filled and then renamed or removed, and what killed processes have left of such."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """Give a folder beside `output` to fill, which becomes that if all goes well, and is gone otherwise.

    Args:
        output: what is not there yet, or an empty folder.

    Raises:
        OSError: `output` holds files.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    staging = make_own_folder(output.parent, f".{output.name}.")
    try:
        staging.chmod(0o755)
        yield staging
        staging.replace(output)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
