"""Folders that are filled and then renamed or removed, and what killed processes have left of such."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from mlgo_clang.scratch import place
from mlgo_gym.storage.cache import naming

_DAY = 86400.0
"""After so long without a change, a folder is swept up though the process that made it cannot be seen from here."""

_TEMPORARY = "mlgo-gym-work-"

_place = lru_cache(maxsize=1)(place)


def make_own_folder(parent: Path, prefix: str) -> Path:
    """Make a folder `PREFIXpid-place-…`, after removing those of this user's processes that are gone.

    Args:
        parent: where.
        prefix: how its name begins; no other folder of the user's may be called so.
    """
    for folder in abandoned(parent, prefix):
        with suppress(OSError):
            shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=own_prefix(prefix), dir=parent))


def own_prefix(prefix: str) -> str:
    """Return how the names of this process's folders begin: with a prefix, its number, and where that counts."""
    return f"{prefix}{os.getpid()}-{_place()}-"


def abandoned(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield the folders of this user's processes that are gone; those made elsewhere once they are a day old.

    Args:
        parent: where they are.
        prefix: as for `own_prefix()`.
    """
    for folder in parent.glob(f"{prefix}*"):
        owner, _, rest = folder.name.removeprefix(prefix).partition("-")
        with suppress(OSError):
            status = folder.stat()
            if not owner.isdigit() or status.st_uid != os.getuid():
                continue
            seen_here = rest.partition("-")[0] == _place()
            if not Path("/proc", owner).exists() if seen_here else time.time() - status.st_mtime > _DAY:
                yield folder


@contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Give what `make_own_folder()` makes; it is gone in the end, or, of a killed process, when somebody next asks."""
    folder = make_own_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def temporary_folder() -> AbstractContextManager[Path]:
    """Give an empty folder where those are, which is gone in the end as that of `own_folder()` is."""
    return own_folder(Path(tempfile.gettempdir()), _TEMPORARY)


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """Give a folder beside `output` to fill, which becomes that if all goes well, and is gone otherwise.

    Args:
        output: what is not there yet, or an empty folder.

    Raises:
        OSError: `output` holds files.
    """
    with naming(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        staging = make_own_folder(output.parent, f".{output.name}.")
    try:
        staging.chmod(0o755)
        yield staging
        staging.replace(output)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
