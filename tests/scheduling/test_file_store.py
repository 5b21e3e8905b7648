"""Files that a worker received with its items."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.file_store import FileStore, StoredFiles

FILES = {"a/b": b"content", "c": b""}

KILLED = """
import os, signal
from mlgo_gym.scheduling.file_store import FileStore
store = FileStore()
store.put("x", lambda: {"file": b"x"})
print(store.folder("x").parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_are_found_by_name_fetched_once_and_removed() -> None:
    fetched = []

    def fetch() -> StoredFiles:
        fetched.append(1)
        return FILES

    store = FileStore()
    store.put("first", fetch)
    store.put("first", fetch)
    store.put("second", lambda: {"c": b"other"})
    first, second = store.folder("first"), store.folder("second")
    assert (first / "a/b").read_bytes() == b"content"
    assert (first / "c").read_bytes() == b""
    assert (second / "c").read_bytes() == b"other"
    assert len(fetched) == 1
    with pytest.raises(MlgoError, match="expected the files of one of this worker's items, got 'calls'"):
        store.folder("calls")
    store.close()
    store.close()
    assert not first.parent.exists()


def test_opening_a_store_removes_those_of_killed_workers_alone() -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    left = Path(killed.stdout.strip())
    assert (left / "0" / "file").read_bytes() == b"x"
    store = FileStore()
    assert not left.exists()
    store.put("x", lambda: {"file": b"x"})
    FileStore().close()
    assert (store.folder("x") / "file").read_bytes() == b"x"
    store.close()
