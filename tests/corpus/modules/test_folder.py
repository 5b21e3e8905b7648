"""Modules of a folder: description, flags, ThinLTO indexes and missing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.description import write_command, write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import SIZES


def test_a_described_folder_opens_in_the_order_of_its_description(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.names) == list(SIZES)
    assert corpus.name == "made"
    assert corpus.path == folder
    assert [module.name for module in corpus] == list(SIZES)


def test_a_module_has_its_flags_and_its_metadata(folder: Path, toolchain: Toolchain) -> None:
    module = open_corpus(folder, toolchain=toolchain)[0]
    assert module == Module("lib/a.o", folder / "lib/a.o.bc", ("-cc1", "-Oz", "-triple", "a"))
    assert module.metadata == {"source": "a.c"}


def test_flags_replace_only_those_that_were_not_recorded(folder: Path, toolchain: Toolchain) -> None:
    assert open_corpus(folder, toolchain=toolchain)[2].flags is None
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-O2"])
    assert [module.flags for module in corpus] == [("-cc1", "-Oz", "-triple", "a"), ("-cc1", "-Os"), ("-O2",)]


def test_the_global_override_stands_in_for_every_command(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, SIZES, global_command_override=["-cc1", "-O1"])
    assert {module.flags for module in open_corpus(folder, toolchain=toolchain)} == {("-cc1", "-O1")}


def test_a_folder_of_bitcode_needs_no_description(folder: Path, toolchain: Toolchain) -> None:
    (folder / "corpus_description.json").unlink()
    (folder / "main.o.thinlto.bc").write_bytes(b"x")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.names) == sorted(SIZES)
    assert corpus.module("lib/b.o").flags == ("-cc1", "-Os")


def test_a_listed_module_without_bitcode_is_an_error_when_it_is_asked_for(folder: Path, toolchain: Toolchain) -> None:
    (folder / "main.o.bc").unlink()
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus[0].name == "lib/a.o"
    with pytest.raises(CorpusError, match=r"main\.o\.bc"):
        corpus.module("main.o")
    with pytest.raises(CorpusError, match=r"main\.o"):
        corpus.size("main.o")


def test_a_broken_command_is_an_error_when_its_module_is_asked_for(folder: Path, toolchain: Toolchain) -> None:
    (folder / "lib/a.o.cmd").write_bytes(b"-Oz\0")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus.module("lib/b.o")
    with pytest.raises(CorpusError, match="begin with -cc1"):
        corpus.module("lib/a.o")


def test_a_thinlto_module_takes_the_index_of_the_corpus(folder: Path, toolchain: Toolchain) -> None:
    write_command(folder / "lib/a.o.cmd", ["-cc1", "-fthinlto-index=/build/lib/a.o.thinlto.bc", "-O2"])
    with pytest.raises(CorpusError, match="expected the ThinLTO index of lib/a"):
        open_corpus(folder, toolchain=toolchain).module("lib/a.o")
    (folder / "lib/a.o.thinlto.bc").write_bytes(b"index")
    module = open_corpus(folder, toolchain=toolchain).module("lib/a.o")
    assert module.flags == ("-cc1", "-O2")
    assert module.thinlto_index == folder / "lib/a.o.thinlto.bc"
