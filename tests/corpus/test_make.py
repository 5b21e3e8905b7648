"""A corpus from any bitcode files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.make import make_corpus
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain


@pytest.fixture
def source(tmp_path: Path, calls: Path) -> Path:
    folder = tmp_path / "bitcode"
    for name in ("top.bc", "nested/deep/x.o.bc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(calls, folder / name)
    return folder


def test_bitcode_is_copied_nested_as_it_is(source: Path, tmp_path: Path, calls: Path) -> None:
    making = make_corpus(source, tmp_path / "corpus")
    assert making.modules == ["nested/deep/x.o", "top"]
    assert (tmp_path / "corpus/nested/deep/x.o.bc").read_bytes() == calls.read_bytes()


def test_the_default_arguments_become_the_override(source: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    make_corpus(source, tmp_path / "corpus", default_args=["-O3", "-c"])
    content = json.loads((tmp_path / "corpus/corpus_description.json").read_text())
    assert content == {
        "modules": ["nested/deep/x.o", "top"],
        "has_thinlto": False,
        "global_command_override": ["-O3", "-c"],
    }
    assert open_corpus(tmp_path / "corpus", toolchain=toolchain)[0].flags == ("-O3", "-c")


def test_without_default_arguments_the_override_is_empty(source: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    make_corpus(source, tmp_path / "corpus")
    assert json.loads((tmp_path / "corpus/corpus_description.json").read_text())["global_command_override"] == []
    assert open_corpus(tmp_path / "corpus", toolchain=toolchain)[0].flags is None


def test_what_only_ends_in_bc_is_skipped_and_named(source: Path, tmp_path: Path) -> None:
    (source / "calculator.bc").write_text("scale=2\n1/3\n")
    making = make_corpus(source, tmp_path / "corpus")
    assert [name for name, _ in making.skipped] == ["calculator"]
    assert "calculator" not in making.modules
    assert not (tmp_path / "corpus/calculator.bc").exists()


def test_the_output_may_lie_in_the_input_or_be_it(source: Path) -> None:
    for output in (source / "corpus", source / "corpus", source):
        assert "top" in make_corpus(source, output).modules
    assert make_corpus(source, source / "other").modules.count("corpus/top") == 1


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_nothing_to_copy_is_an_error_and_writes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="check --input_dir"):
        make_corpus(tmp_path / name, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()
