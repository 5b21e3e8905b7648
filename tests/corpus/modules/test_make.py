"""Corpora from bitcode files and from other corpora."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.modules.description import write_description
from mlgo_gym.corpus.modules.make import combine_corpora, make_corpus
from mlgo_gym.errors import CorpusError


@pytest.fixture
def source(tmp_path: Path, calls: Path) -> Path:
    folder = tmp_path / "bitcode"
    for name in ("top.bc", "nested/deep/x.o.bc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(calls, folder / name)
    return folder


def test_what_only_ends_in_bc_is_skipped_and_named(source: Path, tmp_path: Path) -> None:
    (source / "calculator.bc").write_text("scale=2\n1/3\n")
    report = make_corpus(source, tmp_path / "corpus")
    assert [name for name, _ in report.skipped] == ["calculator"]
    assert "calculator" not in report.modules
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


def test_every_other_key_is_kept(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_description(tmp_path / name, ["x"], has_thinlto=True, global_command_override=["-cc1"], project="p")
    combine_corpora(tmp_path)
    content = json.loads((tmp_path / "corpus_description.json").read_text())
    assert content == {
        "modules": ["one/x", "two/x"],
        "has_thinlto": True,
        "global_command_override": ["-cc1"],
        "project": "p",
    }


def test_any_other_key_that_differs_is_an_error(tmp_path: Path) -> None:
    differing: list[dict[str, Any]] = [{"has_thinlto": True}, {"global_command_override": ["-cc1"]}, {"project": "p"}]
    for keys in differing:
        for one, two in ((keys, {}), ({}, keys)):
            write_description(tmp_path / "one", ["x"], **one)
            write_description(tmp_path / "two", ["x"], **two)
            with pytest.raises(CorpusError, match=f"one and two that differ in {next(iter(keys))}"):
                combine_corpora(tmp_path)
            assert not (tmp_path / "corpus_description.json").exists()


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_defect_combining_nothing_writes_no_empty_corpus(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="check --root_dir"):
        combine_corpora(tmp_path / name)
    assert not (tmp_path / name / "corpus_description.json").exists()
