"""Files that came from another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.shelf import Good, Shelf, digest_of

GOOD = {"a/b": b"content", "c": b""}


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_was_put_is_found_by_its_name_and_fetched_once(parent: Path) -> None:
    fetched = []

    def fetch() -> Good:
        fetched.append(1)
        return GOOD

    one, two = Shelf("run"), Shelf("run")
    one.put("first", digest_of(GOOD), fetch)
    two.put("second", digest_of(GOOD), fetch)
    assert (one.folder("first") / "a/b").read_bytes() == b"content"
    assert one.folder("first") == two.folder("second")
    assert len(fetched) == 1
    one.close()
    assert (two.folder("second") / "c").read_bytes() == b""
    two.close()
    assert list(parent.iterdir()) == []


def test_what_did_not_come_is_an_error(parent: Path) -> None:
    shelf = Shelf("run")
    with pytest.raises(MlgoError, match="calls is not on this machine"):
        shelf.folder("calls")
    shelf.put("calls", digest_of(GOOD), lambda: GOOD)
    shelf.forget("calls")
    with pytest.raises(MlgoError, match="calls is not on this machine"):
        shelf.folder("calls")
    shelf.close()
    shelf.close()


def test_what_a_killed_worker_left_goes_when_the_next_shelf_opens(parent: Path) -> None:
    program = (
        f"import os, signal, tempfile; tempfile.tempdir = {str(parent)!r}\n"
        "from mlgo_gym.scheduling.shelf import Shelf\n"
        "Shelf('killed').put('x', 'digest', lambda: {'file': b'x'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    [left] = parent.iterdir()
    assert left.name == f"mlgo-gym-shelf-{os.getuid()}-killed"
    used = Shelf("used")
    assert not left.exists()
    Shelf("another").close()
    assert [folder.name for folder in parent.iterdir()] == [f"mlgo-gym-shelf-{os.getuid()}-used"]
    used.close()


def test_digests_tell_names_and_contents_apart() -> None:
    goods = [{"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"b"}]
    assert len({digest_of(good) for good in goods}) == len(goods)
    assert digest_of({"x": b"1", "y": b"2"}) == digest_of({"y": b"2", "x": b"1"})
