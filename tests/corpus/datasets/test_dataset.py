"""Datasets: built from source distributions and crates, complete, pinned and explained."""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.datasets import dataset as dataset_module
from mlgo_gym.corpus.datasets.catalogue import (
    RUST,
    catalogue_page,
    corpus_digest,
    dataset_names,
    find_dataset,
    missing_files,
    rust_names,
    wrong_digest,
)
from mlgo_gym.corpus.datasets.dataset import (
    REPORT_FILE,
    DatasetBuild,
    explain_build,
    fetch_dataset,
    missing_parts,
    read_report,
    record_crates,
)
from mlgo_gym.corpus.folder import read_description, write_description
from mlgo_gym.corpus.inspection import describe, verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording import record
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from tests.conftest import clang_program, write_files
from tests.corpus.datasets.conftest import NAME, describe_tiny
from tests.corpus.package_index import PackageIndex, source_distribution
from tests.rust import needs_rust

COMPILING = {"src/good.c": "int good(int x) { return x * 3; }\n", "src/more.c": "int more(int x) { return x * 5; }\n"}
EVERYTHING = [{"sources": ["src/*.c"]}]


def describe_compiling(index: PackageIndex, tmp_path: Path) -> None:
    """Put two sources that compile into the dataset `tiny`."""
    describe_tiny(tmp_path, index.add(NAME, source_distribution(COMPILING)), parts=EVERYTHING, exclude={})


def test_a_dataset_is_made_once_as_a_corpus_at_the_level_asked_for(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fetch_dataset("tiny", optimize="Os", toolchain=toolchain)
    corpus = open_corpus("tiny@Os", toolchain=toolchain)
    assert corpus.path == folder
    assert list(corpus.names) == ["src/good.o", "src/more.o"]
    for module in corpus:
        facts = read_bitcode(module.bitcode)
        assert (facts.level, facts.triple) == ("Os", "x86_64-unknown-linux-gnu")
        assert (module.metadata["project"], module.metadata["licence"]) == ("tiny", "MIT")
        assert module.metadata["archive_sha256"] == index.digests[NAME]
    report = read_report("tiny", folder)
    assert (report.modules, report.lines, report.languages) == (2, 5, {"C": 1, "C++": 1})
    assert 0 <= report.seconds < 600
    (failure,) = report.failures
    assert failure.source == "src/bad.c"
    assert "undeclared identifier 'missing'" in failure.message

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    assert fetch_dataset("tiny", optimize="Os", toolchain=toolchain) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before

    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path / "a longer path" / "to another cache"))
    second = fetch_dataset("tiny", optimize="Os", toolchain=toolchain)
    assert modules_of(folder) == modules_of(second)


def modules_of(folder: Path) -> dict[Path, bytes]:
    """Return the content of a dataset by path, without its report, which has times."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != REPORT_FILE)
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_two_at_once_make_it_once(index: PackageIndex, toolchain: Toolchain) -> None:
    with ThreadPoolExecutor(2) as pool:
        folders = {*pool.map(lambda _: fetch_dataset("tiny", toolchain=toolchain), range(2))}
    assert (len(folders), index.downloads) == (1, 1)


def test_broken_datasets_are_gone(index: PackageIndex, toolchain: Toolchain, own_cache: Path, tmp_path: Path) -> None:
    digest = index.digests[NAME]
    describe_tiny(tmp_path, digest, exclude={"src/none.c": "unused"})
    with pytest.raises(CorpusError, match=r"tiny 1\.0 that matches 'src/none\.c'"):
        fetch_dataset("tiny", toolchain=toolchain)
    with pytest.raises(CorpusError, match="tiny 2"):
        fetch_dataset("pypi:tiny==2", toolchain=toolchain)
    describe_tiny(tmp_path, digest, parts=[{"sources": ["src/bad.c"]}], exclude={})
    with pytest.raises(CorpusError, match="undeclared identifier 'missing'"):
        fetch_dataset("tiny", toolchain=toolchain)
    assert not list(own_cache.rglob("*.bc"))
    assert not [path for path in (own_cache / "datasets").rglob("[!.]*") if path.is_file()]


def test_the_later_part_wins_and_headers_are_shared(index: PackageIndex, toolchain: Toolchain, tmp_path: Path) -> None:
    other = source_distribution({"include/config.h": "#define SCALE 7\n"}, top="tiny-3.0")
    needs = {"other": {"package": "tiny", "version": "3.0", "sha256": index.add("tiny-3.0.tar.gz", other)}}
    parts = [
        {"sources": ["src/good.c", "src/more.cpp"], "include": ["other/include"]},
        {"sources": ["src/good.c"], "include": ["other/include"], "options": ["-mavx2"]},
    ]
    describe_tiny(tmp_path, index.digests[NAME], parts=parts, exclude={}, files={}, needs=needs)
    folder = fetch_dataset("tiny", toolchain=toolchain)
    good, more = open_corpus(folder, toolchain=toolchain)
    assert ("+avx2" in (good.flags or ()), "+avx2" in (more.flags or ())) == (True, False)
    assert read_report("tiny", folder).failures == ()


def test_the_next_fetch_completes_a_dataset(index: PackageIndex, toolchain: Toolchain, tmp_path: Path) -> None:
    describe_compiling(index, tmp_path)
    folder = fetch_dataset("tiny", toolchain=toolchain)
    dataset = find_dataset("tiny")
    modules = read_description(folder).modules
    digests = {"Oz": corpus_digest(folder, modules)}
    pins = {"archive": dataset.archive.sha256, "clang": toolchain.version_text, "digests": digests}
    (tmp_path / "descriptions/pins").mkdir()
    (tmp_path / "descriptions/pins/tiny.json").write_text(json.dumps({**pins, "modules": [" ".join(modules)]}))
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


def test_a_source_whose_compiler_is_killed_is_missing_until_the_next_fetch(index: PackageIndex, tmp_path: Path) -> None:
    describe_compiling(index, tmp_path)
    fault = tmp_path / "fault"
    fault.touch()
    kill = f'if [ -e "{fault}" ]; then case "$*" in *-emit-llvm-bc*more.c) kill -9 $$;; esac; fi'
    toolchain = find_toolchain(str(clang_program(tmp_path / "clang", kill)))
    folder = fetch_dataset("tiny", toolchain=toolchain)
    (failure,) = read_report("tiny", folder).failures
    assert failure.killed
    assert "signal 9" in failure.message
    assert missing_parts(find_dataset("tiny"), folder) == [failure.source]
    for spec in (folder, "tiny"):
        with pytest.warns(CorpusWarning, match="lacks 1 modules or files"):
            corpus = open_corpus(spec, toolchain=toolchain)
    assert describe(corpus, toolchain).missing == [failure.source]
    assert [problem.module for problem in verify(corpus, toolchain)] == [failure.source]
    fault.unlink()
    assert read_report("tiny", fetch_dataset("tiny", toolchain=toolchain)).failures == ()


def test_a_digest_is_of_names_bitcode_and_flags(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{name}{suffix}": name for name in "ab" for suffix in (".bc", ".cmd")})
    digests = {corpus_digest(tmp_path, ["a", "b"]), corpus_digest(tmp_path, ["b", "a"])}
    (tmp_path / "a.cmd").write_bytes(b"-cc1\0-Os\0")
    digests.add(corpus_digest(tmp_path, ["a", "b"]))
    assert len(digests) == 3
    (tmp_path / "b.cmd").unlink()
    with pytest.raises(CorpusError, match="the module b is incomplete"):
        corpus_digest(tmp_path, ["a", "b"])


def test_entries_are_pinned_and_explained_and_have_a_row_of_the_catalogue() -> None:
    for name in dataset_names():
        dataset = find_dataset(name)
        for archive in (dataset.archive, *dataset.needs.values()):
            assert re.fullmatch(r"[0-9a-f]{64}", archive.sha256)
        assert all((dataset.licence, dataset.summary, dataset.parts, *dataset.exclude.values()))
        assert all(path == path.strip("/") and ".." not in path for path in [*dataset.files, *dataset.needs])
    changes: list[dict[str, Any]] = [{name: {"a": "b"}} for name in ("exclude", "files", "amalgamations")]
    changes += [{"folder": "x"}, {"programs": "y"}, {"target": "z"}, {"parts": ()}, {"crates": (dataset.archive,)}]
    changes += [{"needs": {"x": dataset.archive}}, {"archive": replace(dataset.archive, version="0")}]
    recipes = [dataset.recipe, *(replace(dataset, **change).recipe for change in changes)]
    assert len(set(map(repr, recipes))) == len(recipes)
    crates = [crate for name in rust_names() for crate in find_dataset(name).crates]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ [0-9a-f]{64}", f"{crate.version} {crate.sha256}") for crate in crates)
    assert len({crate.package for crate in crates}) == len(crates)
    rows = [line.split(" | ") for line in catalogue_page().splitlines() if line.startswith("| ")][2:]
    assert [row[0].removeprefix("| ") for row in rows] == list(dataset_names())
    assert {row[4] for row in rows} == {"C", "C++", "C and C++"}


BACK_END = """\
import os, subprocess, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    print("[3/7] part.c", flush=True)
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
PACKAGE = {
    "backend.py": BACK_END,
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 2.0\n",
    "src/part.c": "int part(int x) { return x + 1; }\n",
}


@pytest.mark.slow
def test_any_source_distribution_is_built_as_pip_builds_it_and_its_steps_are_reported(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = index.add("tiny-2.0.tar.gz", source_distribution(PACKAGE, top="tiny-2.0"))
    # A report after half a minute would make the test slow.
    monkeypatch.setattr(record, "PROGRESS_SECONDS", 0.05)
    monkeypatch.setattr(dataset_module, "library_is_built", lambda: False)
    steps: list[tuple[int, int | None, str]] = []
    folder = fetch_dataset("pypi:tiny==2.0", toolchain=toolchain, progress=lambda *step: steps.append(step))
    titles = list(dict.fromkeys(title for *_, title in steps))
    title = "tiny: compile, and libc++ at the first C++ link"
    assert titles == ["tiny: download", "tiny: build environment", title]
    assert (3, 7, title) in steps
    (module,) = open_corpus(folder, toolchain=toolchain)
    assert module.name == "part.o"
    assert module.metadata["source"] == "src/part.c"
    assert module.metadata["archive_sha256"] == digest
    assert read_bitcode(module.bitcode).level == "Oz"
    index.downloads = 0
    for name in ("pypi:tiny==2.0", "pypi:Tiny==2.0", "pypi:TINY==2.0"):
        assert fetch_dataset(name, toolchain=toolchain) == folder
    assert index.downloads == 0


def test_a_failed_build_is_explained_by_its_status_and_the_end_of_its_log(tmp_path: Path, toolchain: Toolchain) -> None:
    log = tmp_path / "build.log"
    log.write_text("…\nfatal error: 'openssl/ssl.h' file not found\n1 error generated.\n")
    words = explain_build(1, log, toolchain)
    assert "exit status 1" in words
    assert str(log) in words
    assert words.startswith("the bundled clang has the headers of libc and libc++ and ignores libraries of the system")
    assert "1 error generated." in words
    assert "pure Python" in explain_build(0, log, toolchain)


LIBRARY = """\
pub fn count(text: &str) -> usize {
    text.split(' ').filter(|word| word.len() > 3).map(|word| word.chars().count()).sum()
}
"""


def vendored(folder: Path, name: str, version: str, text: str) -> tuple[str, str, str]:
    """Write a crate to a folder that cargo takes as a directory source; return its name, version and checksum."""
    manifest = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
    checksum = hashlib.sha256(text.encode()).hexdigest()
    sums = json.dumps({"package": checksum, "files": {}})
    files = {"Cargo.toml": manifest, "src/lib.rs": text, ".cargo-checksum.json": sums}
    write_files(folder / f"{name}-{version}", files)
    return name, version, checksum


@pytest.mark.slow
@needs_rust
def test_a_family_is_fetched_from_a_vendored_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path, toolchain: Toolchain
) -> None:
    """One crate does not compile, and another has not the pinned checksum."""
    source = tmp_path / "vendor"
    words = vendored(source, "words", "1.2.0", LIBRARY)
    broken = vendored(source, "broken", "0.1.0", "pub fn f() -> u8 { nonsense }\n")
    changed = (*vendored(source, "changed", "0.2.0", LIBRARY.replace("3", "4"))[:2], "1" * 64)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "here"\n[source.here]\ndirectory = "{source}"\n[net]\noffline = true\n'
    )
    monkeypatch.setenv("CARGO_HOME", str(home))
    crates = {name: pin for name, *pin in (words, broken, changed)}
    entry = {"licence": "MIT", "summary": "three crates", "crates": crates}
    write_files(tmp_path / "descriptions", {"rust-tiny.json": json.dumps(entry)})
    monkeypatch.setenv("MLGO_DATASETS", str(tmp_path / "descriptions"))
    folder = fetch_dataset("rust-tiny", toolchain=toolchain)
    report = read_report("rust-tiny", folder)
    assert report.languages == {"Rust": 2}
    assert [failure.source for failure in report.failures] == ["broken", "changed"]
    assert report.failures[1].message.startswith(f"expected the checksum {'1' * 64}, got ")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus.names == ("changed/changed.o", "words/words.o")
    module = corpus[1]
    assert module.metadata["project"] == "words"
    assert module.metadata["family"] == "rust-tiny"
    assert fetch_dataset("rust-tiny", toolchain=toolchain) == folder


def test_without_cargo_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolchain: Toolchain) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CorpusError, match=r"expected cargo and rustc on PATH, got none; install Rust from rustup\.rs"):
        record_crates(DatasetBuild(find_dataset(f"{RUST}-text"), tmp_path, "Oz", toolchain, {}), print)
