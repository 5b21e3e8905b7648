"""Source distributions that are built as pip builds them, and families of Rust crates."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets.builds import DatasetBuild, explain_build, record_crates
from mlgo_gym.corpus.datasets.catalogue import RUST, find_dataset
from mlgo_gym.corpus.datasets.dataset import fetch_dataset, read_report
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording import record
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import write_files
from tests.corpus.package_index import PackageIndex, source_distribution
from tests.rust import needs_rust

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
    steps: list[tuple[int, int | None, str]] = []
    folder = fetch_dataset("pypi:tiny==2.0", toolchain=toolchain, progress=lambda *step: steps.append(step))
    titles = list(dict.fromkeys(title for *_, title in steps))
    assert titles == ["tiny: download", "tiny: build environment", "tiny: compile"]
    assert (3, 7, "tiny: compile") in steps
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
    crate = folder / f"{name}-{version}"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n')
    (crate / "src/lib.rs").write_text(text)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    (crate / ".cargo-checksum.json").write_text(json.dumps({"package": checksum, "files": {}}))
    return name, version, checksum


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    """A family in a vendored directory: one crate does not compile, and another has not the pinned checksum."""
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


@pytest.mark.slow
@needs_rust
@pytest.mark.usefixtures("family")
def test_a_family_is_fetched_from_a_vendored_directory(toolchain: Toolchain) -> None:
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
