"""Corpora from bitcode files and from other corpora."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.folder import write_description
from mlgo_gym.corpus.importing import combine_corpora, make_corpus
from mlgo_gym.errors import CorpusError
from tests.corpus.conftest import write_files


def test_other_files_are_skipped_and_named_and_the_output_may_lie_in_the_input_or_be_it(
    tmp_path: Path, calls: Path
) -> None:
    source = write_files(tmp_path / "bitcode", {"calculator.bc": "scale=2\n1/3\n"})
    shutil.copy(calls, source / "top.bc")
    report = make_corpus(source, tmp_path / "corpus")
    assert (report.modules, [name for name, _ in report.skipped]) == (["top"], ["calculator"])
    assert not (tmp_path / "corpus/calculator.bc").exists()
    for output in (source / "corpus", source / "corpus", source):
        assert "top" in make_corpus(source, output).modules
    assert make_corpus(source, source / "other").modules.count("corpus/top") == 1


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_nothing_to_copy_or_to_combine_is_an_error_and_writes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="check --input_dir"):
        make_corpus(tmp_path / name, tmp_path / "corpus")
    with pytest.raises(CorpusError, match="check --root_dir"):
        combine_corpora(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_every_other_key_is_kept_and_one_that_differs_is_an_error(tmp_path: Path) -> None:
    common: dict[str, Any] = {"has_thinlto": True, "global_command_override": ["-cc1"], "project": "p"}
    for key, value in common.items():
        for one, two in (({key: value}, {}), ({}, {key: value})):
            write_description(tmp_path / "one", ["x"], **one)
            write_description(tmp_path / "two", ["x"], **two)
            with pytest.raises(CorpusError, match=f"one and two that differ in {key}"):
                combine_corpora(tmp_path)
            assert not (tmp_path / "corpus_description.json").exists()
    for name in ("one", "two"):
        write_description(tmp_path / name, ["x"], **common)
    combine_corpora(tmp_path)
    content = json.loads((tmp_path / "corpus_description.json").read_text())
    assert content == {"modules": ["one/x", "two/x"], **common}
