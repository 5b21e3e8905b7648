"""Untrusted files: no reader blocks on a pipe, reads a device, fills the memory, or accepts damaged tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from mlgo_clang.recipes import stored_decisions
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, read_command, read_description, read_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import read_elf_sections
from mlgo_gym.corpus.recording.links import LINKS_FILE, read_links
from mlgo_gym.corpus.training_digests import read_digests
from mlgo_gym.episode.attribution.recipe import read_recipe
from mlgo_gym.episode.reproducer import read_reproducer
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation.inputs import is_search
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.llvm.ir2vec import vocabulary_file
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.tensors import read_tensors
from mlgo_gym.storage.untrusted_file import read_untrusted

READERS: dict[str, Callable[[Path], object]] = {
    DESCRIPTION_FILE: lambda path: read_description(path.parent),
    "m.json": lambda path: read_metadata(path.parent, "m"),
    "m.cmd": read_command,
    LINKS_FILE: lambda path: read_links(path.parent),
    "m.o": lambda path: read_elf_sections(path, (".llvmbc",)),
    "reproducer.json": lambda path: read_reproducer(path.parent),
    "meta.json": lambda path: load_result(path.parent),
    "digests.txt": read_digests,
    "vocabulary.json": lambda path: vocabulary_file(str(path)),
    "episodes.jsonl": lambda path: list(read_json_lines(path)),
    "m.recipe": read_recipe,
    "policy.safetensors": read_tensors,
}


def make_endless(path: Path, kind: str) -> Path:
    """Make a pipe or a link to a device."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_regular_is_an_error(name: str, tmp_path: Path) -> None:
    for kind in ("a pipe", "a device"):
        with pytest.raises(MlgoError, match="expected a regular file"):
            READERS[name](make_endless(tmp_path / name, kind))


def test_a_recording_or_recipe_that_is_no_file_does_not_block(
    calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tmp_path / "m.bc").write_bytes(calls.read_bytes())
    for kind in ("a pipe", "a device"):
        make_endless(tmp_path / "recording.json", kind)
        assert open_corpus(tmp_path, toolchain=toolchain)[0].name == "m"
        assert not is_search(tmp_path / "recording.json")
        make_endless(tmp_path / f"{'0' * 64}.recipe", kind)
        with pytest.raises(PolicyError, match="expected a regular file"):
            stored_decisions(str(tmp_path), "0" * 64)


def test_a_file_or_a_line_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / DESCRIPTION_FILE
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(MlgoError, match="expected at most 268,435,456 bytes, got 1,099,511,627,776"):
        read_description(tmp_path)
    with pytest.raises(MlgoError, match="line 1: expected at most 268,435,456 bytes, got more; delete the line"):
        list(read_json_lines(path))
    path.write_bytes(b"four")
    assert read_untrusted(path, 4) == b"four"
    with pytest.raises(OSError, match="expected at most 3 bytes"):
        read_untrusted(path, 3)


def container(header: Any, contents: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + contents


def entry(start: int, stop: int, **changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop], **changes}


def test_it_reads_what_the_library_writes(tmp_path: Path) -> None:
    written = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "integers": np.array([-1, 1 << 40]),
        "empty": np.zeros((0, 4), np.float64),
        "number": np.array(1.5, np.float16),
    }
    path = tmp_path / "x.safetensors"
    path.write_bytes(save(written, {"a": "b"}))
    tensors, metadata = read_tensors(path)
    assert metadata == {"a": "b"}
    assert {name: (array.dtype, array.shape) for name, array in tensors.items()} == {
        name: (array.dtype, array.shape) for name, array in written.items()
    }
    assert all(np.array_equal(tensors[name], array) for name, array in written.items())


DAMAGED = [
    b"\x01",
    b"\xff" * 20,
    container(b"\xff{}"),
    container(b"[" * 100_000),
    container([1]),
    container({"__metadata__": 1}),
    container({"a": {"dtype": "F32"}}),
    container({"a": entry(0, 4, dtype="O")}, bytes(4)),
    container({"a": entry(0, 4, shape=[2])}, bytes(4)),
    container({"a": entry(0, 4, shape=[1 << 80])}, bytes(4)),
    container({"a": entry(0, 8)}, bytes(4)),
]


def test_a_damaged_container_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for data in DAMAGED:
        path.write_bytes(data)
        with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*/x\.safetensors'"):
            read_tensors(path)
    with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*/missing.*No such file"):
        read_tensors(tmp_path / "missing.safetensors")
