"""Folders of results by module resume after a kill, and refuse results with another header."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.module_folder import FolderKind, ModuleFolder

KIND = FolderKind("plums", "plums.json", ".plum", 1, "mlgo-gym pick")


def test_results_stay_and_another_header_is_refused(tmp_path: Path) -> None:
    store = ModuleFolder(KIND, tmp_path, {"names": ("a", "b")})
    store.add({"module": "a/b", "plums": 3}, b"three")
    store.add({"module": "\udcff", "plums": 0})
    store.close()
    with pytest.raises(MlgoError, match=r"expected plums of \{'names': \['c'\]\} in .*, got those of"):
        ModuleFolder(KIND, tmp_path, {"names": ["c"]})
    # The refusal has released the folder; headers are compared as JSON has them.
    again = ModuleFolder(KIND, tmp_path, {"names": ["a", "b"]})
    assert again.done == {"a/b": {"module": "a/b", "plums": 3}, "\udcff": {"module": "\udcff", "plums": 0}}
    assert again.part("a/b").read_bytes() == b"three"
    assert not again.part("\udcff").exists()
    again.close()


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
    store = ModuleFolder(KIND, tmp_path, {})
    store.add({"module": "m"})
    store.close()
    path = tmp_path / "plums.json"
    path.unlink() if header is None else path.write_bytes(header)
    with pytest.raises(MlgoError, match=message):
        ModuleFolder(KIND, tmp_path, {})
