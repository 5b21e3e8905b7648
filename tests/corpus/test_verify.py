"""Whether a corpus is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.llvm.toolchain import Toolchain


@pytest.fixture
def sound(tmp_path: Path, calls: Path, toolchain: Toolchain) -> Corpus:
    """A corpus of two sound modules."""
    for name in ("a", "b"):
        shutil.copy(calls, tmp_path / f"{name}.bc")
    write_command(tmp_path / "a.cmd", ["-cc1", "-emit-obj", "-Oz", "-mllvm", "-inline-threshold=5"])
    write_command(tmp_path / "b.cmd", ["-cc1", "-emit-obj", "-Oz"])
    write_description(tmp_path, ["a", "b"])
    return open_corpus(tmp_path, toolchain=toolchain)


def test_a_sound_corpus_has_no_problem(sound: Corpus, any_toolchain: Toolchain) -> None:
    if any_toolchain.version < (22,):
        pytest.skip("older clangs may not read newer bitcode")
    calls: list[None] = []
    assert verify(sound, any_toolchain, progress=lambda: calls.append(None)) == []
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-cc1", "-Oz", "-no-such-flag"], "its argument '-no-such-flag' is none of those that only shape code"),
        (["-cc1", "-mllvm", "-no-such-option"], "'-mllvm -no-such-option' is none of those"),
        (["-cc1", "-triple", "nowhere-unknown-linux"], "target triple"),
        (["-cc1", "-triple"], "target triple"),
    ],
)
def test_flags_that_clang_does_not_understand_are_a_problem(
    sound: Corpus, toolchain: Toolchain, flags: list[str], words: str
) -> None:
    assert sound.path
    write_command(sound.path / "a.cmd", flags)
    problems = verify(sound, toolchain)
    assert [problem.module for problem in problems] == ["a"]
    assert words in problems[0].text
    assert "\n" not in problems[0].text


def test_bitcode_with_another_digest_is_a_problem(sound: Corpus, toolchain: Toolchain) -> None:
    assert sound.path
    write_metadata(sound.path, "a", {"bitcode_sha256": sound[0].digest()})
    write_metadata(sound.path, "b", {"bitcode_sha256": "0" * 64})
    problems = verify(sound, toolchain)
    assert [problem.module for problem in problems] == ["b"]
    assert "SHA-256" in problems[0].text


def test_missing_broken_and_cut_off_bitcode_are_problems(sound: Corpus, toolchain: Toolchain, broken: Path) -> None:
    assert sound.path
    data = (sound.path / "b.bc").read_bytes()
    (sound.path / "a.bc").unlink()
    (sound.path / "b.bc").write_bytes(data[:-400])
    shutil.copy(broken, sound.path / "c.bc")
    write_description(sound.path, ["a", "b", "c"])
    problems = verify(open_corpus(sound.path, toolchain=toolchain), toolchain)
    assert [problem.module for problem in problems] == ["a", "b", "c"]


def test_bitcode_that_only_clang_finds_broken_is_a_problem(sound: Corpus, toolchain: Toolchain) -> None:
    """The type table, which our reader skips, is overwritten."""
    assert sound.path
    data = bytearray((sound.path / "b.bc").read_bytes())
    middle = len(data) // 3
    data[middle : middle + 64] = bytes(64)
    (sound.path / "b.bc").write_bytes(data)
    assert [problem.module for problem in verify(sound, toolchain)] == ["b"]
