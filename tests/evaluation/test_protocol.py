"""The modules of the protocol: the same ones for everybody."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets.catalogue import dataset_names
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.folder import FolderModules
from mlgo_gym.evaluation import protocol


def corpus(folder: Path, level: str = "", sizes: tuple[int, ...] = (10, 20, 30)) -> Corpus:
    """Return a corpus of files that are as large as modules, in folders named as joined datasets."""
    for dataset in ("zstd", "lz4"):
        for number, size in enumerate(sizes):
            path = folder / f"{dataset}{level}" / f"module{number}.bc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"BC" * (size // 2))
    return Corpus("joined", FolderModules(folder))


def test_a_level_is_a_corpus_of_datasets_that_exist() -> None:
    assert set(protocol.DATASETS) <= {"builtin", *dataset_names()}
    assert len(set(protocol.DATASETS)) == len(protocol.DATASETS) == 20
    assert protocol.protocol_corpus("Oz").split(",")[:2] == ["builtin", "zstd"]
    assert protocol.protocol_corpus("Os").split(",")[:2] == ["builtin@Os", "zstd@Os"]


def test_the_documented_commands_name_the_corpora_of_the_protocol() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results" / "benchmark.md").read_text()
    for level in protocol.LEVELS:
        assert f"--corpus {protocol.protocol_corpus(level)}\n" in page


def test_searches_take_at_most_two_modules_of_a_dataset(tmp_path: Path) -> None:
    chosen = protocol.search_modules(corpus(tmp_path), lambda _: True)
    assert Counter(name.split("/")[0] for name in chosen) == {"zstd": 2, "lz4": 2}


def test_searches_take_no_large_module_and_none_without_a_decision(tmp_path: Path) -> None:
    chosen = protocol.search_modules(corpus(tmp_path, sizes=(10, 20, 60_002)), lambda name: "module0" not in name)
    assert sorted(chosen) == ["lz4/module1", "zstd/module1"]


@pytest.mark.parametrize("most", [1, 3])
def test_searches_take_so_many_modules(tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "SEARCH_MODULES", most)
    assert len(protocol.search_modules(corpus(tmp_path), lambda _: True)) == most


def test_both_levels_search_the_same_modules(tmp_path: Path) -> None:
    small, other = (protocol.search_modules(corpus(tmp_path / level, level), lambda _: True) for level in ("", "@Os"))
    assert [name.replace("@Os", "") for name in other] == small
