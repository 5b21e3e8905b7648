"""Pinned content of datasets, and incomplete datasets in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.cli.corpus.tables import list_table, missing_text
from mlgo_gym.corpus import opening
from mlgo_gym.corpus.commands import shim_compiles
from mlgo_gym.corpus.datasets import dataset as datasets
from mlgo_gym.corpus.datasets import fetch, pins
from mlgo_gym.corpus.datasets.catalogue import Dataset, Part
from mlgo_gym.corpus.datasets.dataset import REPORT_FILE, fetch_dataset, missing_parts, read_report
from mlgo_gym.corpus.datasets.pins import corpus_digest, missing_files, write_pins, wrong_digest
from mlgo_gym.corpus.information import describe
from mlgo_gym.corpus.modules.description import read_description, write_description
from mlgo_gym.corpus.opening import named_corpora, open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.datasets.tiny_dataset import pinned, use
from tests.corpus.package_index import PackageIndex, serve, source_distribution

COMPILING = {
    "src/good.c": "int good(int x) { return x * 3; }\n",
    "src/more.c": "int more(int x) { return x * 5; }\n",
    "src/windows.c": "#error not here\n",
}


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with the dataset `tiny`, all of which compiles, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        entry = pinned(served.add("tiny-1.0.tar.gz", source_distribution(COMPILING)))
        use(monkeypatch, replace(entry, parts=(Part(sources=("src/*.c",)),)))
        yield served


def tiny_dataset() -> Dataset:
    """Return the entry `tiny` of the fixture's catalogue."""
    find: Callable[[str], Dataset] = vars(datasets)["find_dataset"]
    return find("tiny")


def test_an_incomplete_dataset_is_completed_by_the_next_fetch(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fetch_dataset("tiny", toolchain=toolchain)
    dataset = tiny_dataset()
    monkeypatch.setattr(pins, "_FOLDER", tmp_path / "pins")
    write_pins(dataset, {"Oz": folder}, toolchain.version_text)
    assert missing_parts(dataset, folder) == []
    assert wrong_digest(folder, dataset, "Oz", toolchain) is None
    made = folder.stat().st_ino
    assert fetch_dataset("tiny", toolchain=toolchain).stat().st_ino == made

    write_description(folder, ["src/good.o"])
    assert missing_files(folder, dataset) == ["src/more.o"]
    fetch_dataset("tiny", toolchain=toolchain)
    assert read_description(folder).modules == ("src/good.o", "src/more.o")
    for missing in ("src/good.o.cmd", "src/more.o.bc", REPORT_FILE):
        (folder / missing).unlink()
        assert missing_parts(dataset, folder) == [missing]
        fetch_dataset("tiny", toolchain=toolchain)
        assert missing_parts(dataset, folder) == []
    (folder / "src" / "good.o.bc").write_bytes(b"other")
    assert "of its modules" in str(wrong_digest(folder, dataset, "Oz", toolchain))


def test_a_source_whose_compiler_is_killed_twice_is_missing_until_the_next_fetch(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shim_compiles.run_front_end

    def run(command: list[str], folder: str) -> tuple[int, str]:
        return (-9, "") if "-emit-llvm-bc" in command and command[-1].endswith("more.c") else real(command, folder)

    monkeypatch.setattr(shim_compiles, "run_front_end", run)
    folder = fetch_dataset("tiny", toolchain=toolchain)
    (failure,) = read_report("tiny", folder).failures
    assert failure.killed
    assert "signal 9" in failure.message
    assert missing_parts(tiny_dataset(), folder) == [failure.source]
    for module in (datasets, opening):
        monkeypatch.setattr(module, "fetched_names", lambda: ("tiny",))
    monkeypatch.setattr(opening, "find_dataset", vars(datasets)["find_dataset"])
    with pytest.warns(CorpusWarning, match="lacks 1 modules or files"):
        corpus = open_corpus(folder, toolchain=toolchain)
    with pytest.warns(CorpusWarning, match="lacks 1 modules or files"):
        open_corpus("tiny", toolchain=toolchain)
    assert describe(corpus, toolchain).missing == [failure.source]
    assert [problem.module for problem in verify(corpus, toolchain)] == [failure.source]
    (entry,) = [entry for entry in named_corpora(toolchain, "Oz") if entry.name == "tiny"]
    assert entry.missing == (failure.source,)
    assert "lacks 1" in str(list(list_table([entry], "Oz").columns[3].cells))
    assert failure.source in missing_text(entry.missing)
    monkeypatch.setattr(shim_compiles, "run_front_end", real)
    assert read_report("tiny", fetch_dataset("tiny", toolchain=toolchain)).failures == ()


def test_a_digest_is_of_names_bitcode_and_flags(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.bc").write_bytes(name.encode())
        (tmp_path / f"{name}.cmd").write_bytes(b"-cc1\0")
    digests = {corpus_digest(tmp_path, ["a", "b"]), corpus_digest(tmp_path, ["b", "a"])}
    (tmp_path / "a.cmd").write_bytes(b"-cc1\0-Os\0")
    digests.add(corpus_digest(tmp_path, ["a", "b"]))
    assert len(digests) == 3
    (tmp_path / "b.cmd").unlink()
    with pytest.raises(CorpusError, match="the module b is incomplete"):
        corpus_digest(tmp_path, ["a", "b"])
