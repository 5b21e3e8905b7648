"""Files that a worker received with its items."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.file_store import FileStore, StoredFiles

FILES = {"a/b": b"content", "c": b""}


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_files_are_found_by_name_and_fetched_once(parent: Path) -> None:
    fetched = []

    def fetch() -> StoredFiles:
        fetched.append(1)
        return FILES

    store = FileStore()
    store.put("first", fetch)
    store.put("first", fetch)
    store.put("second", lambda: {"c": b"other"})
    assert (store.folder("first") / "a/b").read_bytes() == b"content"
    assert (store.folder("first") / "c").read_bytes() == b""
    assert (store.folder("second") / "c").read_bytes() == b"other"
    assert len(fetched) == 1
    store.close()
    assert list(parent.iterdir()) == []


def test_a_missing_name_is_an_error(parent: Path) -> None:
    store = FileStore()
    with pytest.raises(MlgoError, match="expected the files of one of this worker's items, got 'calls'"):
        store.folder("calls")
    store.close()
    store.close()


def test_opening_a_store_removes_those_of_killed_workers(parent: Path) -> None:
    program = (
        f"import os, signal, tempfile; tempfile.tempdir = {str(parent)!r}\n"
        "from mlgo_gym.scheduling.file_store import FileStore\n"
        "FileStore().put('x', lambda: {'file': b'x'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    [left] = parent.iterdir()
    used = FileStore()
    assert not left.exists()
    FileStore().close()
    [kept] = parent.iterdir()
    assert kept.name.startswith(f"mlgo-gym-store-{os.getpid()}-")
    used.close()
