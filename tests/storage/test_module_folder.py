"""Folders of results by module resume after a kill, and refuse results with another header."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.module_folder import FolderKind, ModuleFolder

KIND = FolderKind("plums", "plums.json", ".plum", 1, "mlgo-gym pick")


def begin(folder: Path, **header: object) -> ModuleFolder:
    return ModuleFolder(KIND, folder, header)


def test_results_are_kept_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    store = begin(tmp_path, seed=1)
    store.add({"module": "a/b", "plums": 3}, b"three")
    store.add({"module": "\udcff", "plums": 0})
    store.close()
    again = begin(tmp_path, seed=1)
    assert again.done == {"a/b": {"module": "a/b", "plums": 3}, "\udcff": {"module": "\udcff", "plums": 0}}
    assert again.part("a/b").read_bytes() == b"three"
    assert not again.part("\udcff").exists()
    again.close()


def test_a_header_is_compared_as_json_has_it(tmp_path: Path) -> None:
    store = begin(tmp_path, names=("a", "b"))
    store.add({"module": "m"})
    store.close()
    begin(tmp_path, names=["a", "b"]).close()


def test_another_header_is_refused_and_the_folder_is_released(tmp_path: Path) -> None:
    store = begin(tmp_path, seed=1)
    store.add({"module": "m"})
    store.close()
    with pytest.raises(MlgoError, match=r"expected plums of \{'seed': 2\} in .*, got those of \{'seed': 1\}"):
        begin(tmp_path, seed=2)
    begin(tmp_path, seed=1).close()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "expected a folder of plums, got .*No such file.*; make one with `mlgo-gym pick`"),
        (b"{", "expected a folder of plums, got"),
        (b"[]", "expected plums of format 1 in .*, got None; reproduce them with `mlgo-gym pick`"),
        (b'{"format": 2}', "expected plums of format 1 in .*, got 2"),
    ],
)
def test_a_missing_or_damaged_header_is_an_error(tmp_path: Path, header: bytes | None, message: str) -> None:
    store = begin(tmp_path)
    store.add({"module": "m"})
    store.close()
    path = tmp_path / "plums.json"
    path.unlink() if header is None else path.write_bytes(header)
    with pytest.raises(MlgoError, match=message):
        begin(tmp_path)
