"""One module: its bitcode and its digest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.untrusted import make_untrusted_corpus


def test_empty_truncated_and_huge_files_are_refused_by_name(calls: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.bc"
    for content in (b"", b"BC", calls.read_bytes()[:-4]):
        path.write_bytes(content)
        with pytest.raises(CorpusError, match=r"m\.bc: .*LLVM bitcode"):
            read_bitcode(path)
    with path.open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(CorpusError, match="magic number"):
        read_bitcode(path)


def test_a_module_that_is_deleted_during_an_episode_is_a_clear_error(calls: Path, tmp_path: Path) -> None:
    shutil.copy(calls, tmp_path / "calls.bc")
    env = InlineEnv(corpus=str(tmp_path), compile_options={"extra_flags": ["-mllvm", "-inline-threshold=7"]})
    env.reset()
    (tmp_path / "calls.bc").unlink()

    def play() -> None:
        over = False
        while not over:
            *_, over, _, _ = env.step(0)

    with pytest.raises(CorpusError, match="expected the bitcode of a module, got no such file"):
        play()
    env.close()


def test_a_sparse_module_of_a_terabyte_is_refused(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ())
    os.truncate(folder / "m.bc", 1 << 40)
    corpus = open_corpus(folder, toolchain=toolchain)
    (problem,) = verify(corpus, toolchain)
    assert "LLVM bitcode" in problem.text
    with pytest.raises(CorpusError, match="at most 2,147,483,648 bytes, got 1,099,511,627,776"):
        corpus[0].digest()
    with pytest.raises(CorpusError, match="remove it from the corpus"):
        gym.make("mlgo/Inline-v0", corpus=str(folder)).reset()
