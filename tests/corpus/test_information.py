"""Statistics of a corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.information import describe, histogram, read_error
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode


@pytest.fixture
def mixed(tmp_path: Path, make_bitcode: MakeBitcode, toolchain: Toolchain) -> Corpus:
    """A corpus of a module at -Oz, one at -O2 and one whose bitcode is missing."""
    shutil.copy(make_bitcode("calls.c", optimize="-Oz"), tmp_path / "small.bc")
    shutil.copy(make_bitcode("calls.c", optimize="-O2"), tmp_path / "fast.bc")
    write_metadata(tmp_path, "small", {"lines": 12, "licence": "MIT", "optimize": "O2"})
    write_description(tmp_path, ["small", "fast", "missing"])
    return open_corpus(tmp_path, toolchain=toolchain)


def test_modules_are_counted_by_kind(mixed: Corpus, toolchain: Toolchain) -> None:
    information = describe(mixed, toolchain)
    assert information.modules == 2
    assert information.bitcode_bytes == mixed.size("small") + mixed.size("fast")
    assert information.lines == (12, 1)
    assert information.languages == {"C": 2}
    assert information.licences == {"MIT": 1, "unknown": 1}
    assert information.producers == {f"LLVM{toolchain.version_text}": 2}
    assert information.targets == {"x86_64-unknown-linux-musl": 2}
    assert information.unreadable == {}


def test_the_level_is_that_of_the_attributes_and_not_of_the_metadata(mixed: Corpus, toolchain: Toolchain) -> None:
    information = describe(mixed, toolchain)
    assert information.levels == {"Oz": 1, "O1-O3": 1}
    half = information.functions["functions"] // 2
    assert information.functions["minsize"] == information.functions["optsize"] == half > 0


def test_an_unreadable_module_is_a_problem(mixed: Corpus, toolchain: Toolchain) -> None:
    problems = describe(mixed, toolchain).problems
    assert len(problems) == 1
    assert "missing.bc" in problems[0]


def test_decisions_are_counted_by_the_given_function(mixed: Corpus, toolchain: Toolchain) -> None:
    def count(module: Module, task: str) -> int:
        return len(module.name) if task == "inlining" else 0

    information = describe(mixed, toolchain, count=count, tasks=["inlining", "eviction"])
    assert information.decisions == {"inlining": [5, 4], "eviction": [0, 0]}
    assert describe(mixed, toolchain).decisions == {}


def test_bitcode_that_this_clang_cannot_read_is_named_with_its_producer(
    mixed: Corpus, toolchain: Toolchain, broken: Path, tmp_path: Path
) -> None:
    words = ["-cc1", "-w", "-x", "ir"]
    assert read_error(toolchain, [*words, str(mixed[0].bitcode)]) is None
    reason = read_error(toolchain, [*words, str(broken)])
    assert reason is not None
    assert "error" in reason
    data = bytearray((tmp_path / "small.bc").read_bytes())
    middle = len(data) // 3
    data[middle : middle + 64] = bytes(64)
    for name in ("small", "fast"):
        (tmp_path / f"{name}.bc").write_bytes(data)
    assert list(describe(mixed, toolchain).unreadable) == [f"LLVM{toolchain.version_text}"]


def test_a_histogram_has_a_bin_for_each_power_of_ten() -> None:
    bins = histogram([0, 0, 1, 9, 10, 99, 100, 5_000, 10_000, 123_456])
    assert bins == [("0", 2), ("1-9", 2), ("10-99", 2), ("100-999", 1), ("1000-9999", 1), ("10000+", 2)]
