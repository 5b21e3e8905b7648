"""Datasets: fetched sources become corpora in the cache."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets import dataset as datasets
from mlgo_gym.corpus.datasets.catalogue import Archive, Part
from mlgo_gym.corpus.datasets.dataset import fetch_dataset, read_report
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError, UnreachableError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.datasets.tiny_dataset import FILES, pinned, use
from tests.corpus.package_index import PackageIndex, source_distribution


@pytest.mark.parametrize(("optimize", "level"), [("Oz", "Oz"), ("Os", "Os"), ("O2", "O1-O3")])
def test_a_dataset_is_a_corpus_at_the_level_asked_for(
    index: PackageIndex, toolchain: Toolchain, optimize: str, level: str
) -> None:
    folder = fetch_dataset("tiny", optimize=optimize, toolchain=toolchain)
    modules = list(open_corpus(folder, toolchain=toolchain))
    assert [module.name for module in modules] == ["src/good.o", "src/more.o"]
    for module in modules:
        facts = read_bitcode(module.bitcode)
        assert facts.level == level
        assert facts.triple == "x86_64-unknown-linux-gnu"
        assert module.metadata["project"] == "tiny"
        assert module.metadata["licence"] == "MIT"
        assert module.metadata["archive_sha256"] == index.digests["tiny-1.0.tar.gz"]


def test_sources_that_do_not_compile_are_named_and_the_rest_is_kept(index: PackageIndex, toolchain: Toolchain) -> None:
    report = read_report("tiny", fetch_dataset("tiny", toolchain=toolchain))
    assert report.modules == 2
    assert report.lines == 5
    (failure,) = report.failures
    assert failure.source == "src/bad.c"
    assert "undeclared identifier 'missing'" in failure.message


def test_fetching_twice_does_nothing(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fetch_dataset("tiny", toolchain=toolchain)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    assert fetch_dataset("tiny", toolchain=toolchain) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_two_at_once_make_it_once(index: PackageIndex, toolchain: Toolchain) -> None:
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda: folders.append(fetch_dataset("tiny", toolchain=toolchain))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders[0] == folders[1]
    assert index.downloads == 1


def test_two_fetches_give_equal_modules(
    index: PackageIndex, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch_dataset("tiny", toolchain=toolchain)
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path / "a longer path" / "to another cache"))
    second = fetch_dataset("tiny", toolchain=toolchain)
    assert first != second
    for path in first.rglob("*"):
        if path.is_file() and path.name != datasets.REPORT_FILE:
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


def kept_files(cache: Path) -> list[Path]:
    """Return the files of downloads and datasets, but for locks."""
    return [path for part in ("downloads", "datasets") for path in (cache / part).rglob("[!.]*") if path.is_file()]


def test_an_archive_that_leads_out_leaves_nothing(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    escaping = source_distribution({**FILES, "../../../../escaped.c": "int escaped;\n"})
    use(monkeypatch, pinned(index.add("tiny-1.0.tar.gz", escaping)))
    with pytest.raises(CorpusError, match="leads out of the folder"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert kept_files(own_cache) == []
    assert not list(own_cache.parent.rglob("*escaped*"))


def test_a_pattern_without_files_is_an_error(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), exclude={"src/none.c": "unused"}))
    with pytest.raises(CorpusError, match=r"tiny 1\.0 that matches 'src/none\.c'"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert not list(own_cache.rglob("good*"))


def test_a_dataset_without_a_source_that_compiles_is_an_error_with_the_compilers_message(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = (Part(sources=("src/bad.c",)),)
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), parts=parts, exclude={}))
    with pytest.raises(CorpusError, match="undeclared identifier 'missing'"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert not list(own_cache.rglob("*.bc"))


def test_the_later_of_two_parts_wins(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = (Part(("src/good.c", "src/more.cpp"), ("generated",)), Part(("src/good.c",), ("generated",), ("-mavx2",)))
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), parts=parts, exclude={}))
    good, more = open_corpus(fetch_dataset("tiny", toolchain=toolchain), toolchain=toolchain)
    assert "+avx2" in (good.flags or ())
    assert "+avx2" not in (more.flags or ())


def test_headers_of_another_source_distribution_can_be_used(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = index.add(
        "tiny-3.0.tar.gz", source_distribution({"include/config.h": "#define SCALE 7\n"}, top="tiny-3.0")
    )
    parts = (Part(sources=("src/good.c",), include=("other/include",)),)
    entry = replace(pinned(index.digests["tiny-1.0.tar.gz"]), parts=parts, exclude={}, files={})
    use(monkeypatch, replace(entry, needs={"other": Archive("tiny", "3.0", digest)}))
    assert read_report("tiny", fetch_dataset("tiny", toolchain=toolchain)).failures == ()


def test_an_unknown_dataset_is_an_error_that_lists_the_catalogue(toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"expected a dataset of .*zstd, got 'zztd'"):
        fetch_dataset("zztd", toolchain=toolchain)


def fetch_lz4(toolchain: Toolchain) -> Path:
    """Fetch a dataset of the real catalogue, or skip the test where the package index is out of reach."""
    try:
        return fetch_dataset("lz4", toolchain=toolchain)
    except UnreachableError as error:
        pytest.skip(f"no network: {error}")


@pytest.mark.slow
def test_each_level_of_a_dataset_is_a_separate_corpus(toolchain: Toolchain) -> None:
    fetch_lz4(toolchain)
    corpora = {level: open_corpus(f"lz4@{level}", toolchain=toolchain) for level in ("Oz", "Os", "O2")}
    assert len({corpus.path for corpus in corpora.values()}) == 3
    for level, corpus in corpora.items():
        facts = [read_bitcode(module.bitcode) for module in corpus]
        functions = sum(fact.functions for fact in facts)
        assert functions > 200
        assert sum(fact.minsize for fact in facts) == (functions if level == "Oz" else 0)
        assert sum(fact.optsize for fact in facts) == (functions if level in ("Oz", "Os") else 0)
        assert sum(fact.optnone for fact in facts) == 0
    assert corpora["Oz"].path == open_corpus("lz4", toolchain=toolchain).path
