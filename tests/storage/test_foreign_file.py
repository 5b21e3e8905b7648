"""Files of strangers may be no files: no reader waits for a pipe, or reads a device to its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo_clang import recipes as drivers_recipes
from mlgo_gym.corpus.description import DESCRIPTION_FILE, read_command, read_description, read_metadata
from mlgo_gym.corpus.links import LINKS_FILE, read_links
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.sections import ElfReader
from mlgo_gym.episode.reproducer import read_reproducer
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.leaderboard.manifest import read_manifest, read_verification
from mlgo_gym.leaderboard.training_digests import read_digests
from mlgo_gym.llvm.ir2vec import vocabulary_file
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.reporting.curves import curves_in, is_search
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.recipe import read_recipe
from mlgo_gym.storage.tensors import read_tensors
from mlgo_gym.trajectories.logs import read_answers
from mlgo_gym.trajectories.trace_folder import read_trace

READERS: dict[str, Callable[[Path], object]] = {
    DESCRIPTION_FILE: lambda path: read_description(path.parent),
    "m.json": lambda path: read_metadata(path.parent, "m"),
    "m.cmd": read_command,
    LINKS_FILE: lambda path: read_links(path.parent),
    "m.o": lambda path: ElfReader().read(path, (".llvmbc",)),
    "reproducer.json": lambda path: read_reproducer(path.parent),
    "meta.json": lambda path: load_result(path.parent),
    "trace/meta.json": lambda path: read_trace(path.parent),
    "manifest.json": lambda path: read_manifest(path.parent),
    "verification.json": lambda path: read_verification(path.parent),
    "digests.txt": read_digests,
    "vocabulary.json": lambda path: vocabulary_file(str(path)),
    "normalization.json": Normalization.load,
    "progress.csv": lambda path: curves_in(path.parent),
    "events.out.tfevents.1": lambda path: curves_in(path.parent),
    "episodes.jsonl": lambda path: list(read_json_lines(path)),
    "m.recipe": read_recipe,
    "policy.safetensors": read_tensors,
    "m.log": read_answers,
}


@pytest.fixture(params=["a pipe", "a device"])
def place(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Put what is no regular file where a file is looked for."""

    def put(path: Path) -> Path:
        path.parent.mkdir(exist_ok=True)
        if request.param == "a pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    return put


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_regular_file_is_an_error(name: str, place: Callable[[Path], Path], tmp_path: Path) -> None:
    path = place(tmp_path / name)
    with pytest.raises(MlgoError, match="a regular file was wanted, and it is none"):
        READERS[name](path)


def test_nor_does_a_recording_that_is_none_or_a_search_keep_anybody_waiting(
    place: Callable[[Path], Path], calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    (tmp_path / "m.bc").write_bytes(calls.read_bytes())
    place(tmp_path / "recording.json")
    assert open_corpus(tmp_path, toolchain=toolchain)[0].name == "m"
    assert not is_search(tmp_path / "recording.json")


def test_nor_does_a_recipe_in_a_build(place: Callable[[Path], Path], tmp_path: Path) -> None:
    place(tmp_path / f"{'0' * 64}.recipe")
    with pytest.raises(drivers_recipes.RecipeError, match="is no regular file"):
        drivers_recipes.read_recipe(str(tmp_path), "0" * 64)


def test_a_file_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / DESCRIPTION_FILE
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(MlgoError, match="268,435,456 bytes at most are read, and it has 1,099,511,627,776"):
        read_description(tmp_path)


def test_a_file_is_read_up_to_the_limit_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"four")
    assert read_foreign(path, 4) == b"four"
    with pytest.raises(OSError, match="3 bytes at most"):
        read_foreign(path, 3)


def test_a_line_that_would_fill_the_memory_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mlgo_gym.storage.json_lines.LARGEST", 8)
    path = tmp_path / "lines.jsonl"
    path.write_text('"1"\n"12345"\n"123456"\n')
    with pytest.raises(MlgoError, match="line 3, was to be JSON, and has more than 8 bytes"):
        list(read_json_lines(path))
