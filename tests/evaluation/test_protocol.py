"""The modules of the benchmark's protocol."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mlgo_gym.corpus.datasets.catalogue import dataset_names
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.folder import FolderModules
from mlgo_gym.evaluation import protocol


def corpus(folder: Path, level: str = "", sizes: tuple[int, ...] = (10, 20, 30)) -> Corpus:
    """Return a corpus of files that are as large as modules, in folders named as joined datasets."""
    for dataset in (f"d{number}" for number in range(16)):
        for number, size in enumerate(sizes):
            path = folder / f"{dataset}{level}" / f"module{number}.bc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"BC" * (size // 2))
    return Corpus("joined", FolderModules(folder))


def test_the_documented_commands_name_datasets_that_exist() -> None:
    assert set(protocol.DATASETS) <= {"builtin", *dataset_names()}
    assert protocol.protocol_corpus("Oz").split(",")[:2] == ["builtin", "zstd"]
    assert protocol.protocol_corpus("Os").split(",")[:2] == ["builtin@Os", "zstd@Os"]
    page = (Path(__file__).parents[2] / "docs" / "results" / "benchmark.md").read_text()
    assert all(f"--corpus {protocol.protocol_corpus(level)}\n" in page for level in protocol.LEVELS)


def test_searches_take_at_most_two_small_modules_of_a_dataset_the_same_at_each_level(tmp_path: Path) -> None:
    chosen = protocol.search_modules(corpus(tmp_path / "Oz"), lambda _: True)
    assert len(chosen) == protocol.SEARCH_MODULES == 24
    assert set(Counter(name.split("/")[0] for name in chosen).values()) <= {1, 2}
    other = protocol.search_modules(corpus(tmp_path / "Os", "@Os"), lambda _: True)
    assert [name.replace("@Os", "") for name in other] == chosen
    large = corpus(tmp_path / "large", sizes=(10, 20, 60_002))
    rest = protocol.search_modules(large, lambda name: "module0" not in name)
    assert sorted(rest) == sorted(f"d{number}/module1" for number in range(16))
