"""Datasets: what becomes of fetched sources, and the catalogue."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus import dataset as datasets
from mlgo_gym.corpus import fetch
from mlgo_gym.corpus.amalgamation import split_amalgamation
from mlgo_gym.corpus.catalogue import Archive, Dataset, Part, dataset_names, find_dataset
from mlgo_gym.corpus.dataset import fetch_dataset, read_report
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError, UnreachableError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.package_index import PackageIndex, serve, source_distribution

FILES = {
    "src/good.c": '#include "config.h"\n#include <stdlib.h>\nint good(int x) { return abs(x) * SCALE; }\n',
    "src/more.cpp": "#include <vector>\nint more(int x) { return std::vector<int>(x).size(); }\n",
    "src/bad.c": "int bad(void) { return missing; }\n",
    "src/windows.c": "#error not here\n",
}
TINY = Dataset(
    name="tiny",
    archive=Archive("tiny", "1.0", sha256=""),
    licence="MIT",
    summary="two modules",
    parts=(Part(sources=("src/*.c", "src/*.cpp"), include=("generated",)),),
    exclude={"src/windows.c": "for Windows"},
    files={"generated/config.h": "#define SCALE 3\n"},
)


def pinned(digest: str) -> Dataset:
    """Return the entry `tiny` with a digest."""
    return replace(TINY, archive=Archive("tiny", "1.0", digest))


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that pip would use, with the dataset `tiny`, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        digest = served.add("tiny-1.0.tar.gz", source_distribution(FILES))
        use(monkeypatch, pinned(digest))
        yield served


def use(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    """Put an entry into the catalogue."""
    monkeypatch.setattr(datasets, "find_dataset", {"tiny": dataset}.__getitem__)
    monkeypatch.setattr(datasets, "dataset_names", lambda: ("tiny",))


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


def test_what_does_not_compile_is_named_and_the_rest_is_kept(index: PackageIndex, toolchain: Toolchain) -> None:
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


def test_that_a_dataset_has_to_be_made_first_is_told_once(
    index: PackageIndex, toolchain: Toolchain, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "mlgo_gym"):
        for _ in range(2):
            fetch_dataset("tiny", toolchain=toolchain)
    assert caplog.messages == ["the dataset tiny is fetched and compiled at -Oz, this once"]


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


def test_a_wrong_digest_leaves_nothing(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, pinned("0" * 64))
    with pytest.raises(CorpusError, match="sha256"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert kept_files(own_cache) == []


def test_a_truncated_download_leaves_nothing_and_can_be_fetched_again(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.cut = 20
    monkeypatch.setattr(fetch, "sleep", lambda seconds: None)
    with pytest.raises(CorpusError, match=r"tiny 1\.0 was to be fetched, and the package index cannot be used"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert kept_files(own_cache) == []
    index.cut = 0
    assert len(open_corpus(fetch_dataset("tiny", toolchain=toolchain), toolchain=toolchain)) == 2


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
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), exclude={"src/gone.c": "unused"}))
    with pytest.raises(CorpusError, match=r"tiny 1\.0 matches 'src/gone\.c'"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert not list(own_cache.rglob("good*"))


def test_nothing_that_compiles_is_an_error_with_the_compilers_words(
    index: PackageIndex, toolchain: Toolchain, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = (Part(sources=("src/bad.c",)),)
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), parts=parts, exclude={}))
    with pytest.raises(CorpusError, match="undeclared identifier 'missing'"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert not list(own_cache.rglob("*.bc"))


def test_sources_compiled_twice_are_kept_apart(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tuple(Part(sources=("src/good.c",), options=(f"-DSCALE={n}",), prefix=f"by{n}") for n in (2, 5))
    files = {"src/config.h": ""}
    use(monkeypatch, replace(pinned(index.digests["tiny-1.0.tar.gz"]), parts=parts, exclude={}, files=files))
    folder = fetch_dataset("tiny", toolchain=toolchain)
    assert open_corpus(folder, toolchain=toolchain).names == ("by2/src/good.o", "by5/src/good.o")


def test_a_later_part_decides_about_its_sources(
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


def test_any_source_distribution_is_built_as_pip_builds_it(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = """
        import os, subprocess, zipfile
        def build_wheel(folder, config_settings=None, metadata_directory=None):
            subprocess.run([os.environ["CC"], "-O2", "-c", "src/part.c", "-o", "part.o"], check=True)
            name = "tiny-2.0-py3-none-any.whl"
            with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
                wheel.write("part.o")
                information = "tiny-2.0.dist-info"
                wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 2.0\\n")
                wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
                wheel.writestr(f"{information}/RECORD", "")
            return name
    """
    files = {
        "backend.py": re.sub("^        ", "", backend, flags=re.MULTILINE),
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 2.0\n",
        "src/part.c": "int part(int x) { return x + 1; }\n",
    }
    digest = index.add("tiny-2.0.tar.gz", source_distribution(files, top="tiny-2.0"))
    folder = fetch_dataset("pypi:tiny==2.0", toolchain=toolchain)
    (module,) = open_corpus(folder, toolchain=toolchain)
    assert module.name == "part.o"
    assert module.metadata["source"] == "src/part.c"
    assert module.metadata["archive_sha256"] == digest
    assert read_bitcode(module.bitcode).level == "Oz"
    index.downloads = 0
    for name in ("pypi:tiny==2.0", "pypi:Tiny==2.0", "pypi:TINY==2.0"):
        assert fetch_dataset(name, toolchain=toolchain) == folder
    assert index.downloads == 0


@pytest.mark.parametrize("name", ["pypi:tiny", "pypi:tiny==", "pypi:../x==1"])
def test_a_package_needs_name_and_version(name: str, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="NAME==VERSION was wanted"):
        fetch_dataset(name, toolchain=toolchain)


def test_an_unknown_dataset_is_named_with_those_that_are_there(toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"no dataset 'zztd'; the catalogue has .*zstd"):
        fetch_dataset("zztd", toolchain=toolchain)


def test_an_unknown_level_is_refused(toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="not at 'O9'"):
        fetch_dataset("zstd", optimize="O9", toolchain=toolchain)


@pytest.mark.parametrize("name", dataset_names())
def test_entries_of_the_catalogue_are_pinned_and_explained(name: str) -> None:
    dataset = find_dataset(name)
    for archive in (dataset.archive, *dataset.needs.values()):
        assert re.fullmatch(r"[0-9a-f]{64}", archive.sha256)
    assert dataset.licence
    assert dataset.summary
    assert dataset.parts
    assert all(dataset.exclude.values())
    assert all(path == path.strip("/") and ".." not in path for path in [*dataset.files, *dataset.needs])


def test_an_amalgamation_comes_apart_into_its_files() -> None:
    text = (
        "left out\n/**** start inlining common/a.c ****/\nbefore\n/**** start inlining a.h ****/\nint a;\n"
        "/**** ended inlining a.h ****/\nafter\n/**** skipping file: ../b.h ****/\n"
        "/**** ended inlining common/a.c ****/\n"
    )
    assert split_amalgamation(text) == {
        "common/a.c": 'before\n#include "a.h"\nafter\n#include "../b.h"\n',
        "common/a.h": "int a;\n",
    }


@pytest.mark.parametrize("text", ["int a;\n", "/**** start inlining a.c ****/\n", "/**** ended inlining a.c ****/\n"])
def test_what_is_no_whole_amalgamation_is_refused(text: str) -> None:
    with pytest.raises(CorpusError, match="amalgamation"):
        split_amalgamation(text)


def fetch_lz4(toolchain: Toolchain) -> Path:
    """Fetch a dataset of the real catalogue, or skip the test where the package index is out of reach."""
    try:
        return fetch_dataset("lz4", toolchain=toolchain)
    except UnreachableError as error:
        pytest.skip(f"no network: {error}")


def test_lz4_comes_from_the_package_index(toolchain: Toolchain) -> None:
    folder = fetch_lz4(toolchain)
    assert json.loads((folder / datasets.REPORT_FILE).read_text())["failures"] == []
    assert set(open_corpus("lz4", toolchain=toolchain).names) == {
        "lz4libs/lz4.o",
        "lz4libs/lz4frame.o",
        "lz4libs/lz4hc.o",
        "lz4libs/xxhash.o",
    }


def test_each_level_of_a_dataset_is_a_corpus_of_its_own(toolchain: Toolchain) -> None:
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
