"""Files that a worker received with its items, in a temporary folder of the worker."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.temporary_folders import make_process_folder

StoredFiles = Mapping[str, bytes]
"""Files that belong together, such as a module with its flags: contents by relative path."""


class FileStore:
    """The received files of one worker. Opening a store removes the folders of killed workers."""

    def __init__(self) -> None:
        self._folder = make_process_folder(Path(tempfile.gettempdir()), "mlgo-gym-store-")
        self._folders: dict[str, Path] = {}

    def put(self, name: str, fetch: Callable[[], StoredFiles]) -> None:
        """Store files under a name for `folder()`; `fetch` is called only if the store has none of this name."""
        if name in self._folders:
            return
        folder = self._folder / str(len(self._folders))
        for part, content in fetch().items():
            path = folder / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._folders[name] = folder

    def folder(self, name: str) -> Path:
        """Return the folder with the files of a name.

        Raises:
            MlgoError: The store has no files of this name.
        """
        if name not in self._folders:
            raise MlgoError(
                f"expected the files of one of this worker's items, got {name!r}; a worker receives no other files of "
                "the machine that started the run"
            )
        return self._folders[name]

    def close(self) -> None:
        """Remove the files. Idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)
