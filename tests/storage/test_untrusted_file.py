"""Untrusted files: no reader blocks on a pipe, reads a device, or fills the memory."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo_clang import recipes as drivers_recipes
from mlgo_gym.attribution.recipe import read_recipe
from mlgo_gym.corpus.modules.description import DESCRIPTION_FILE, read_command, read_description, read_metadata
from mlgo_gym.corpus.modules.training_digests import read_digests
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import read_elf_sections
from mlgo_gym.corpus.recording.links import LINKS_FILE, read_links
from mlgo_gym.episode.reproducer import read_reproducer
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.llvm.ir2vec import vocabulary_file
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.reporting.curves import curves_in, is_search
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.tensors import read_tensors
from mlgo_gym.storage.untrusted_file import read_untrusted, sha256_of, update_from_file
from mlgo_gym.trajectories.logs import read_advice

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
    "normalization.json": Normalization.load,
    "progress.csv": lambda path: curves_in(path.parent),
    "events.out.tfevents.1": lambda path: curves_in(path.parent),
    "episodes.jsonl": lambda path: list(read_json_lines(path)),
    "m.recipe": read_recipe,
    "policy.safetensors": read_tensors,
    "m.log": read_advice,
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


kinds = pytest.mark.parametrize("kind", ["a pipe", "a device"])


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_regular_is_an_error(name: str, tmp_path: Path) -> None:
    for kind in ("a pipe", "a device"):
        with pytest.raises(MlgoError, match="expected a regular file"):
            READERS[name](make_endless(tmp_path / name, kind))


@kinds
def test_a_recording_a_search_or_a_recipe_that_is_not_regular_does_not_block(
    kind: str, calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tmp_path / "m.bc").write_bytes(calls.read_bytes())
    make_endless(tmp_path / "recording.json", kind)
    assert open_corpus(tmp_path, toolchain=toolchain)[0].name == "m"
    assert not is_search(tmp_path / "recording.json")
    make_endless(tmp_path / f"{'0' * 64}.recipe", kind)
    with pytest.raises(drivers_recipes.RecipeError, match="expected a regular file"):
        drivers_recipes.read_recipe(str(tmp_path), "0" * 64)


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


def test_a_digest_depends_neither_on_the_chunk_size_nor_on_its_beginning() -> None:
    for size in (0, 5, (1 << 20) - 1, (1 << 21) + 3):
        data = (bytes(range(251)) * (size // 251 + 1))[:size]
        assert sha256_of(io.BytesIO(data)) == hashlib.sha256(data).hexdigest()
        digest = hashlib.sha256(b"before")
        update_from_file(digest, io.BytesIO(data))
        assert digest.digest() == hashlib.sha256(b"before" + data).digest()
