"""Files that came with work from another machine: kept by their content, once for all workers of this one."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mlgo_gym.errors import MlgoError

Good = Mapping[str, bytes]
"""The files that belong together, such as a module with its flags: their contents by relative paths."""

_PREFIX = "mlgo-gym-shelf-"
_LOCK = "in-use"


def digest_of(good: Good) -> str:
    """Return the SHA-256 of names and contents, in hexadecimal."""
    digest = hashlib.sha256()
    for name in sorted(good):
        digest.update(f"{len(name.encode())} {len(good[name])} {name}".encode() + good[name])
    return digest.hexdigest()


class Shelf:
    """A folder of this machine, shared by all workers of a run; the last of them to end removes it.

    What killed workers of other runs have left is removed when a shelf is opened.

    Args:
        run: the name of the run.

    Raises:
        MlgoError: the folder is somebody else's.
    """

    def __init__(self, run: str) -> None:
        parent = Path(tempfile.gettempdir())
        prefix = f"{_PREFIX}{os.getuid()}-"
        for folder in parent.glob(f"{prefix}*"):
            if folder.name != prefix + run:
                _remove_unused(folder)
        self._folder = parent / (prefix + run)
        self._digests: dict[str, str] = {}
        self._lock = _open_shared(self._folder)

    def has(self, digest: str) -> bool:
        """Return whether files of this content are here."""
        return (self._folder / digest).is_dir()

    def put(self, name: str, digest: str, fetch: Callable[[], Good]) -> None:
        """Take files in under a name.

        Args:
            name: what they are asked for by.
            digest: that of their content; files that are here already are not fetched again.
            fetch: returns them.
        """
        if not self.has(digest):
            partial = Path(tempfile.mkdtemp(dir=self._folder))
            for part, content in fetch().items():
                path = partial / part
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                partial.rename(self._folder / digest)
            except OSError:  # another worker was faster
                shutil.rmtree(partial, ignore_errors=True)
                if not self.has(digest):
                    raise
        self._digests[name] = digest

    def forget(self, name: str) -> None:
        """Forget a name; the files stay for others."""
        self._digests.pop(name, None)

    def folder(self, name: str) -> Path:
        """Return the folder with the files of a name.

        Raises:
            MlgoError: they have not come.
        """
        if name not in self._digests:
            raise MlgoError(
                f"{name} is not on this machine: a worker has what its own items need, and nothing else of the machine "
                "that started the run"
            )
        return self._folder / self._digests[name]

    def close(self) -> None:
        """Let go of the files. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            _remove_unused(self._folder)


def _open_shared(folder: Path) -> int:
    """Make a folder if need be, and return a descriptor that keeps others from removing it."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if folder.stat().st_uid != os.getuid() or folder.is_symlink():
            raise MlgoError(f"{folder} was to be a folder of this user, and is somebody else's; remove it")
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        # Between the two calls it may have been removed.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), (folder / _LOCK).stat()):
                return lock
        os.close(lock)


def _remove_unused(folder: Path) -> None:
    """Remove a folder of this user's, unless a process uses it."""
    with contextlib.suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(lock)
