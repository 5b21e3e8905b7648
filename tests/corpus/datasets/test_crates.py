"""Datasets of Rust crates: their catalogue, and a fetch through the source that cargo has configured."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets.builds import DatasetBuild, record_crates
from mlgo_gym.corpus.datasets.catalogue import RUST, find_dataset
from mlgo_gym.corpus.datasets.dataset import fetch_dataset, read_report
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import write_files
from tests.rust import needs_rust

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
        record_crates(DatasetBuild(find_dataset(f"{RUST}-text"), tmp_path, "Oz", toolchain, {}))
