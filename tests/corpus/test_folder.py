"""Files of a corpus folder, its bitcode, and their digests."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.corpus.folder import (
    parse_command,
    read_command,
    read_description,
    write_command,
    write_description,
)
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.untrusted import make_untrusted_corpus


def test_what_is_written_is_read_back_and_has_the_keys_of_llvm_s_tools(tmp_path: Path) -> None:
    write_description(tmp_path, ["lib/x.o", "b"], has_thinlto=True, global_command_override=["-cc1"], project="p")
    read = read_description(tmp_path)
    assert (read.modules, read.has_thinlto, read.global_command_override, read.extra) == (
        *(("lib/x.o", "b"), True, ("-cc1",)),
        {"project": "p"},
    )
    write_description(tmp_path, ["a"])
    assert json.loads((tmp_path / "corpus_description.json").read_text()) == {"modules": ["a"], "has_thinlto": False}


def test_a_broken_description_or_a_name_that_leads_out_is_an_error(tmp_path: Path) -> None:
    for content in ("", "[]", "{}", '{"modules": "a"}', '{"modules": [1]}', '{"modules": ["a"'):
        (tmp_path / "corpus_description.json").write_text(content)
        with pytest.raises(CorpusError, match=r"corpus_description\.json"):
            read_description(tmp_path)
    for name in ("/etc/passwd", "../x", "a/../../x", ""):
        (tmp_path / "corpus_description.json").write_text(json.dumps({"modules": [name]}))
        with pytest.raises(CorpusError, match="leads out of the corpus folder"):
            read_description(tmp_path)
        with pytest.raises(CorpusError, match="leads out of the corpus folder"):
            write_description(tmp_path, [name])


@given(st.lists(st.binary().filter(lambda flag: b"\0" not in flag)))
def test_any_flags_survive_a_cmd_file(flags: list[bytes]) -> None:
    data = b"-cc1\0" + b"".join(flag + b"\0" for flag in flags)
    parsed = parse_command(data, "x.cmd")
    assert [flag.encode(errors="surrogateescape") for flag in parsed] == [b"-cc1", *flags]


def test_a_cmd_file_that_does_not_begin_with_cc1_is_neither_written_nor_read(tmp_path: Path) -> None:
    flags: list[str]
    for flags in ([], ["-Oz"], ["-cc1", "a\0b"]):
        with pytest.raises(CorpusError):
            write_command(tmp_path / "x.cmd", flags)
        assert not (tmp_path / "x.cmd").exists()
    for data in (b"", b"-Oz\0", b"clang\0-cc1\0"):
        (tmp_path / "x.cmd").write_bytes(data)
        with pytest.raises(CorpusError, match="begin with -cc1"):
            read_command(tmp_path / "x.cmd")


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
