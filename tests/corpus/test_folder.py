"""Corpora in folders: what is written and read, in this process and in others."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym import CorpusError, open_corpus
from mlgo_gym.corpus.folder import (
    CorpusOutline,
    pack_module,
    parse_command,
    read_command,
    read_description,
    write_command,
    write_description,
    write_metadata,
)
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.scheduling import FileStore
from tests.corpus.untrusted import make_untrusted_corpus
from tests.fakes.drive import finish


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


def test_a_module_that_is_deleted_during_an_episode_is_a_clear_error(calls: Path, tmp_path: Path) -> None:
    shutil.copy(calls, tmp_path / "calls.bc")
    with InlineEnv(corpus=str(tmp_path), compile_options={"extra_flags": ["-mllvm", "-inline-threshold=7"]}) as env:
        _, info = env.reset()
        (tmp_path / "calls.bc").unlink()
        with pytest.raises(CorpusError, match="expected the bitcode of a module, got no such file"):
            finish(env, info)


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


def test_only_paths_change(calls: Path, leaf: Path, store: FileStore, toolchain: Toolchain, tmp_path: Path) -> None:
    """The corpus has flags, a profile that they name, metadata, and an index."""
    folder = tmp_path / "origin"
    (folder / "lib").mkdir(parents=True)
    (folder / "inputs").mkdir()
    (folder / "inputs" / "some.profdata").write_bytes(b"profile")
    shutil.copy(calls, folder / "lib" / "calls.o.bc")
    (folder / "lib" / "calls.o.thinlto.bc").write_bytes(b"index")
    write_command(folder / "lib" / "calls.o.cmd", ["-cc1", "-Oz", "-fprofile-instrument-use-path=inputs/some.profdata"])
    write_metadata(folder, "lib/calls.o", {"language": "c"})
    write_description(folder, ["lib/calls.o", "lib/missing.o"])
    corpus = open_corpus(f"{folder},{leaf}", toolchain=toolchain)
    name, missing, _ = corpus.names
    before = corpus.module(name)
    assert before.inputs == (str(folder / "inputs/some.profdata"),)
    remote = CorpusOutline.of(corpus).open(store)
    for module_name in (name, missing):
        store.put(module_name, partial(pack_module, corpus, module_name))
    shutil.rmtree(folder)
    after = remote.module(name)
    assert Path(after.inputs[0]).read_bytes() == b"profile"
    assert after.flags == (*(before.flags or ())[:-1], f"-fprofile-instrument-use-path={after.inputs[0]}")
    assert after.thinlto_index is not None
    assert after.thinlto_index.read_bytes() == b"index"
    assert after.bitcode.stat().st_size == remote.size(name)
    assert after.metadata == before.metadata == {"language": "c"}
    same = replace(after, bitcode=before.bitcode, flags=before.flags, inputs=before.inputs)
    assert replace(same, thinlto_index=before.thinlto_index) == before
    assert remote.origin(name) == corpus.origin(name)
    assert (remote.name, list(remote.names), remote.prefix) == (corpus.name, list(corpus.names), corpus.prefix)
    with pytest.raises(CorpusError, match=r"missing\.o\.bc: expected the bitcode of a module"):
        remote.module(missing)
