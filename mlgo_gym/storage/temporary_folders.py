"""Folders that are removed or renamed when complete, and removed after a kill."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from mlgo_clang.files import abandoned_folders, holder, is_stopped, lock, process_prefix, remove_folder
from mlgo_gym.cache import errors_name_file
from mlgo_gym.errors import MlgoError

_TEMPORARY = "mlgo-gym-work-"


def make_process_folder(parent: Path, prefix: str) -> Path:
    """Make a folder of this process, after removing those of this user's processes that have exited.

    No other folder of the user may have the prefix.
    """
    for folder in abandoned_folders(os.fspath(parent), prefix):
        remove_folder(folder)
    return Path(tempfile.mkdtemp(prefix=process_prefix(prefix), dir=parent))


@contextmanager
def process_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder of this process, and remove it on exit; after a kill the next such folder removes it."""
    folder = make_process_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def temporary_folder() -> AbstractContextManager[Path]:
    """Make a `process_folder()` among the system's temporary files."""
    return process_folder(Path(tempfile.gettempdir()), _TEMPORARY)


@contextmanager
def complete_folder(output: Path) -> Iterator[Path]:
    """Make a folder that is renamed to `output`, missing or empty, on exit; or removed after an exception."""
    with errors_name_file(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        staging = make_process_folder(output.parent, f".{output.name}.")
    try:
        staging.chmod(0o755)
        yield staging
        staging.replace(output)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


@contextmanager
def locked(folder: Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock for the creation of a folder, across processes; wait until it is free.

    Raises `MlgoError` if another process holds the lock for all these seconds, or is stopped.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.parent / f".{folder.name}.lock"
    with path.open("w") as file:
        if not lock(file.fileno(), seconds):
            pid = holder(file.fileno())
            owner = f"process {pid}, which {'is stopped' if is_stopped(pid) else 'works'}" if pid else "a process"
            raise MlgoError(
                f"expected the lock {str(path)!r} within {seconds:g} s, got one of {owner}; continue or end it"
            )
        yield
