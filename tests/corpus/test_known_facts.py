"""A large corpus is read once for its splits, and then only looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import write_description
from mlgo_gym.corpus.folder import FolderModules
from mlgo_gym.corpus.module import Module


class CountedModules(FolderModules):
    """Counts what is loaded."""

    loaded = 0

    def load(self, name: str) -> Module:
        self.loaded += 1
        return super().load(name)


@pytest.fixture
def folder(calls: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mlgo_gym.corpus.known_facts.FEWEST", 10)
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


def test_what_has_changed_is_read_again(folder: Path) -> None:
    split(folder)
    shutil.copy(folder / "m3.bc", folder / "aside")
    (folder / "aside").rename(folder / "m5.bc")
    assert split(folder)[1] == 1
    (folder / "m7.json").write_text('{"source_sha256": "x"}')
    assert split(folder)[1] == 1
    assert split(folder)[1] == 0


def test_what_cannot_be_read_is_not_kept(folder: Path) -> None:
    (folder / "m4.cmd").write_bytes(b"no command\0")
    assert split(folder)[1] == 20
    assert split(folder)[1] == 1
