"""Facts about the modules of an evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate, load_result
from mlgo_gym.evaluation.module_facts import MODULES, ModuleFacts, language, read_modules, write_modules
from mlgo_gym.llvm.toolchain import Toolchain


def test_the_recorded_language_counts_and_else_the_bitcode_tells(toolchain: Toolchain) -> None:
    corpus = open_corpus("builtin", toolchain=toolchain)
    module = next(iter(corpus))
    assert language(replace(module, metadata={"language": "Zig"})) == "Zig"
    assert language(replace(module, metadata={})) == module.metadata["language"]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    facts = [
        ModuleFacts("a", "12", "34", "C", ("-cc1", "-Oz")),
        ModuleFacts("b\udcff", "56", None, "unknown", None),
    ]
    write_modules(tmp_path, facts)
    assert list(read_modules(tmp_path).values()) == facts
    (tmp_path / MODULES).write_text('{"module": "a"}\n')
    with pytest.raises(MlgoError, match="expected facts about modules"):
        read_modules(tmp_path)


def test_a_folder_without_facts_has_none(tmp_path: Path) -> None:
    assert read_modules(tmp_path) == {}


def test_an_evaluation_knows_the_languages_of_its_modules(tmp_path: Path) -> None:
    result = evaluate("mlgo/Inline-v0", policies=["default"], limit=3, output=tmp_path)
    assert set(result.languages) <= {"C", "C++"}
    assert load_result(tmp_path).modules == result.modules
    assert len(result.modules) == 3
