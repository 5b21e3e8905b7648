"""Modules on a machine that does not have their corpus."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.shipping import CorpusOutline, pack_module
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.scheduling.shelf import Shelf, digest_of


@pytest.fixture
def folder(calls: Path, tmp_path: Path) -> Path:
    """A corpus with flags, a profile that they name, metadata, and an index."""
    folder = tmp_path / "origin"
    (folder / "lib").mkdir(parents=True)
    (folder / "inputs").mkdir()
    (folder / "inputs" / "some.profdata").write_bytes(b"profile")
    shutil.copy(calls, folder / "lib" / "calls.o.bc")
    (folder / "lib" / "calls.o.thinlto.bc").write_bytes(b"index")
    write_command(folder / "lib" / "calls.o.cmd", ["-cc1", "-Oz", "-fprofile-instrument-use-path=inputs/some.profdata"])
    write_metadata(folder, "lib/calls.o", {"language": "c"})
    write_description(folder, ["lib/calls.o", "lib/gone.o"])
    return folder


def test_a_module_is_what_it_was_with_other_paths(folder: Path, shelf: Shelf, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    before = corpus.module("lib/calls.o")
    assert before.inputs == (str(folder / "inputs/some.profdata"),)
    packed = pack_module(corpus, "lib/calls.o")
    there = CorpusOutline.of(corpus).on(shelf)
    shelf.put("lib/calls.o", digest_of(packed), lambda: packed)
    shutil.rmtree(folder)
    after = there.module("lib/calls.o")
    assert Path(after.inputs[0]).read_bytes() == b"profile"
    assert after.flags == (*(before.flags or ())[:-1], f"-fprofile-instrument-use-path={after.inputs[0]}")
    assert after.thinlto_index is not None
    assert after.thinlto_index.read_bytes() == b"index"
    assert after.bitcode.stat().st_size == there.size("lib/calls.o")
    assert replace(after, bitcode=before.bitcode, flags=before.flags, inputs=before.inputs, thinlto_index=None) == (
        replace(before, thinlto_index=None)
    )
    assert after.metadata == before.metadata
    assert there.origin("lib/calls.o") == corpus.origin("lib/calls.o")
    assert (there.name, list(there.names), there.prefix) == (corpus.name, list(corpus.names), corpus.prefix)


def test_a_module_that_is_broken_says_so_where_it_came_to(folder: Path, shelf: Shelf, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    packed = pack_module(corpus, "lib/gone.o")
    shelf.put("lib/gone.o", digest_of(packed), lambda: packed)
    with pytest.raises(CorpusError, match=r"gone\.o\.bc: the corpus lists this module, and its bitcode is missing"):
        CorpusOutline.of(corpus).on(shelf).module("lib/gone.o")


def test_a_module_that_did_not_come_is_an_error(folder: Path, shelf: Shelf, toolchain: Toolchain) -> None:
    there = CorpusOutline.of(open_corpus(folder, toolchain=toolchain)).on(shelf)
    with pytest.raises(CorpusError, match=r"module lib/calls\.o is not on this machine"):
        there.module("lib/calls.o")


def test_a_joined_corpus_keeps_projects_and_names(folder: Path, shelf: Shelf, toolchain: Toolchain, leaf: Path) -> None:
    corpus = open_corpus(f"{folder},{leaf}", toolchain=toolchain)
    there = CorpusOutline.of(corpus).on(shelf)
    for name in corpus.names:
        packed = pack_module(corpus, name)
        shelf.put(name, digest_of(packed), lambda packed=packed: packed)  # type: ignore[misc]
    assert there.origin(corpus.names[0]) == corpus.origin(corpus.names[0])
