"""Groups of modules that a split keeps together, and their cached facts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_description
from mlgo_gym.corpus.modules.folder import FolderModules
from mlgo_gym.corpus.modules.sampling import is_part
from mlgo_gym.corpus.modules.split_groups import first_of_groups
from tests.corpus.conftest import COUNT


def test_compiles_of_one_source_and_equal_modules_are_in_one_part(compiled_twice: Corpus) -> None:
    train, test = (set(compiled_twice.split(part).names) for part in ("train", "test"))
    assert train
    assert test
    for number in range(COUNT):
        assert ({f".libs/m{number}.o", f"m{number}.o"} <= train) or ({f".libs/m{number}.o", f"m{number}.o"} <= test)
    last = {f"{prefix}m{number}.o" for number in (COUNT - 2, COUNT - 1) for prefix in (".libs/", "")}
    assert last <= train or last <= test


def test_groups_are_connected_components_of_shared_facts() -> None:
    assert first_of_groups([("b", ("x",)), ("a", ("y",)), ("c", ("x", "z")), ("d", ("z",)), ("e", ())]) == {
        "b": "b",
        "c": "b",
        "d": "b",
        "a": "a",
        "e": "e",
    }
    assert is_part("a", "train") != is_part("a", "test")


class CountedModules(FolderModules):
    """Counts what is loaded."""

    loaded = 0

    def load(self, name: str) -> Module:
        self.loaded += 1
        return super().load(name)


@pytest.fixture
def folder(calls: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mlgo_gym.corpus.modules.split_groups.MIN_CACHED_MODULES", 10)
    folder = tmp_path / "corpus"
    folder.mkdir()
    names = [f"m{number}" for number in range(20)]
    for number, name in enumerate(names):
        # Behind the end of a wrapped module there can be anything: all differ but the last two.
        size = calls.stat().st_size
        header = b"".join(word.to_bytes(4, "little") for word in (0x0B17C0DE, 0, 20, size, 7))
        (folder / f"{name}.bc").write_bytes(header + calls.read_bytes() + min(number, 18).to_bytes(4, "little"))
    write_description(folder, names)
    return folder


def split(folder: Path) -> tuple[list[str], int]:
    modules = CountedModules(folder)
    return list(Corpus("c", modules, path=folder).split("test").names), modules.loaded


def test_the_second_split_loads_nothing_and_is_the_same(folder: Path) -> None:
    first, loaded = split(folder)
    assert loaded == 20
    assert split(folder) == (first, 0)


def test_changed_modules_are_read_again(folder: Path) -> None:
    split(folder)
    shutil.copy(folder / "m3.bc", folder / "aside")
    (folder / "aside").rename(folder / "m5.bc")
    assert split(folder)[1] == 1
    (folder / "m7.json").write_text('{"source_sha256": "x"}')
    assert split(folder)[1] == 1
    assert split(folder)[1] == 0


def test_facts_of_unreadable_modules_are_not_cached(folder: Path) -> None:
    (folder / "m4.cmd").write_bytes(b"no command\0")
    assert split(folder)[1] == 20
    assert split(folder)[1] == 1
