"""Verification of a corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusWarning
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode
from tests.corpus.untrusted import BENIGN


@pytest.fixture
def valid(tmp_path: Path, calls: Path, toolchain: Toolchain) -> Corpus:
    """A corpus of two valid modules."""
    for name in ("a", "b"):
        shutil.copy(calls, tmp_path / f"{name}.bc")
    write_command(tmp_path / "a.cmd", ["-cc1", "-emit-obj", "-Oz", "-mllvm", "-inline-threshold=5"])
    write_command(tmp_path / "b.cmd", ["-cc1", "-emit-obj", "-Oz"])
    write_description(tmp_path, ["a", "b"])
    return open_corpus(tmp_path, toolchain=toolchain)


def test_a_valid_corpus_has_no_problem(valid: Corpus, any_toolchain: Toolchain) -> None:
    if any_toolchain.version < (22,):
        pytest.skip("older clangs may not read newer bitcode")
    calls: list[None] = []
    assert verify(valid, any_toolchain, progress=lambda: calls.append(None)) == []
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-cc1", "-Oz", "-no-such-flag"], "only shape code, got '-no-such-flag'"),
        (["-cc1", "-mllvm", "-no-such-option"], "got '-mllvm -no-such-option'"),
        (["-cc1", "-triple", "nowhere-unknown-linux"], "target triple"),
        (["-cc1", "-triple"], "target triple"),
    ],
)
def test_flags_that_clang_does_not_understand_are_a_problem(
    valid: Corpus, toolchain: Toolchain, flags: list[str], words: str
) -> None:
    assert valid.path
    write_command(valid.path / "a.cmd", flags)
    problems = verify(valid, toolchain)
    assert [problem.module for problem in problems] == ["a"]
    assert words in problems[0].text
    assert "\n" not in problems[0].text


def test_bitcode_with_another_digest_is_a_problem(valid: Corpus, toolchain: Toolchain) -> None:
    assert valid.path
    write_metadata(valid.path, "a", {"bitcode_sha256": valid[0].digest()})
    write_metadata(valid.path, "b", {"bitcode_sha256": "0" * 64})
    problems = verify(valid, toolchain)
    assert [problem.module for problem in problems] == ["b"]
    assert "SHA-256" in problems[0].text


def test_missing_broken_and_truncated_bitcode_are_problems(valid: Corpus, toolchain: Toolchain, broken: Path) -> None:
    assert valid.path
    data = (valid.path / "b.bc").read_bytes()
    (valid.path / "a.bc").unlink()
    (valid.path / "b.bc").write_bytes(data[:-400])
    shutil.copy(broken, valid.path / "c.bc")
    write_description(valid.path, ["a", "b", "c"])
    problems = verify(open_corpus(valid.path, toolchain=toolchain), toolchain)
    assert [problem.module for problem in problems] == ["a", "b", "c"]


def test_bitcode_that_only_clang_finds_broken_is_a_problem(valid: Corpus, toolchain: Toolchain) -> None:
    """The type table, which our reader skips, is overwritten."""
    assert valid.path
    data = bytearray((valid.path / "b.bc").read_bytes())
    middle = len(data) // 3
    data[middle : middle + 64] = bytes(64)
    (valid.path / "b.bc").write_bytes(data)
    assert [problem.module for problem in verify(valid, toolchain)] == ["b"]


def test_missing_flags_are_reported_by_opening_and_by_verify(
    make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path: Path
) -> None:
    for name, level in (("a", "-Oz"), ("b", "-Os")):
        shutil.copy(make_bitcode("calls.c", optimize=level), tmp_path / f"{name}.bc")
    write_command(tmp_path / "a.cmd", BENIGN)
    write_description(tmp_path, ["a", "b"])
    with pytest.warns(CorpusWarning, match="1 of the first 2 modules have no recorded flags"):
        corpus = open_corpus(tmp_path, toolchain=toolchain)
    (problem,) = verify(corpus, toolchain)
    assert (problem.module, "compiled with -Os -fPIC" in problem.text) == ("b", True)
    assert "-Os" in plan(corpus.module("b"), toolchain).flags
