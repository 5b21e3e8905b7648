"""Folders of results by module go on where they were ended, and take only what is of their kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.module_folder import FolderKind, ModuleFolder

KIND = FolderKind("plums", "plums.json", ".plum", 1, "mlgo-gym pick")


def begin(folder: Path, **header: object) -> ModuleFolder:
    return ModuleFolder(KIND, folder, header)


def test_what_was_added_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
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


def test_results_of_another_kind_are_refused_and_the_folder_is_let_go(tmp_path: Path) -> None:
    store = begin(tmp_path, seed=1)
    store.add({"module": "m"})
    store.close()
    with pytest.raises(MlgoError, match=r"has plums of another kind: \{'seed': 1\} there, \{'seed': 2\} now"):
        begin(tmp_path, seed=2)
    begin(tmp_path, seed=1).close()


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (None, "was to be a folder of plums, and is none: .*No such file.*; make one: mlgo-gym pick"),
        (b"{", "was to be a folder of plums, and is none"),
        (b"[]", "was to have plums of format 1; make them again: mlgo-gym pick"),
        (b'{"format": 2}', "was to have plums of format 1"),
    ],
)
def test_a_header_that_is_gone_or_damaged_is_said_in_words(tmp_path: Path, header: bytes | None, said: str) -> None:
    store = begin(tmp_path)
    store.add({"module": "m"})
    store.close()
    path = tmp_path / "plums.json"
    path.unlink() if header is None else path.write_bytes(header)
    with pytest.raises(MlgoError, match=said):
        begin(tmp_path)
