"""Modules on a machine without their corpus."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus.folder import write_command, write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.remote_modules import CorpusOutline, pack_module
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.scheduling import FileStore


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
    write_description(folder, ["lib/calls.o", "lib/missing.o"])
    return folder


def test_a_module_only_changes_its_paths_and_a_broken_one_raises_its_error(
    folder: Path, store: FileStore, toolchain: Toolchain, leaf: Path
) -> None:
    corpus = open_corpus(f"{folder},{leaf}", toolchain=toolchain)
    name, missing, _ = corpus.names
    before = corpus.module(name)
    assert before.inputs == (str(folder / "inputs/some.profdata"),)
    remote = CorpusOutline.of(corpus).open(store)
    for module_name in (name, missing):
        packed = pack_module(corpus, module_name)
        store.put(module_name, lambda packed=packed: packed)  # type: ignore[misc]
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
