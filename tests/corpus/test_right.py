"""Corpora as they ought to be read: flags that are missing, names that mean two things, splits that do not leak."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus import opening
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.extract import extract_corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.object_list import from_directory
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.related import first_of_each
from mlgo_gym.corpus.sampling import is_part
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode
from tests.corpus.strangers import BENIGN

COUNT = 40


@pytest.fixture
def twice(tmp_path: Path, calls: Path, leaf: Path, toolchain: Toolchain) -> Corpus:
    """A corpus of sources that libtool has compiled twice, of which the last two are identical as well."""
    folder = tmp_path / "twice"
    names = []
    for number in range(COUNT):
        for place in (".libs/", ""):
            name = f"{place}m{number}.o"
            path = folder / f"{name}.bc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((leaf if number >= COUNT - 2 else calls).read_bytes())
            write_command(folder / f"{name}.cmd", BENIGN)
            digest = f"{name}" if number < COUNT - 2 else "the same"
            source = {"source": f"m{number}.c", "source_sha256": f"{number}", "bitcode_sha256": digest}
            write_metadata(folder, name, source)
            names.append(name)
    write_description(folder, names)
    return open_corpus(folder, toolchain=toolchain)


def test_the_two_halves_of_a_source_and_equal_modules_are_on_one_side_of_a_split(twice: Corpus) -> None:
    train, test = (set(twice.split(part).names) for part in ("train", "test"))
    assert train
    assert test
    for number in range(COUNT):
        assert ({f".libs/m{number}.o", f"m{number}.o"} <= train) or ({f".libs/m{number}.o", f"m{number}.o"} <= test)
    last = {f"{place}m{number}.o" for number in (COUNT - 2, COUNT - 1) for place in (".libs/", "")}
    assert last <= train or last <= test


def test_a_module_that_is_related_to_none_stays_where_its_name_has_put_it() -> None:
    assert first_of_each([("b", ("x",)), ("a", ("y",)), ("c", ("x", "z")), ("d", ("z",)), ("e", ())]) == {
        "b": "b",
        "c": "b",
        "d": "b",
        "a": "a",
        "e": "e",
    }
    assert is_part("a", "train") != is_part("a", "test")


def test_a_sampler_takes_each_once_and_remembers_its_place(twice: Corpus) -> None:
    sampler = twice.sampler(seed=3)
    first = [next(sampler).name for _ in range(len(twice) + 10)]
    assert sorted(first[: len(twice)]) == sorted(twice.names)
    again = twice.sampler(seed=3)
    begun = [next(again).name for _ in range(25)]
    resumed = pickle.loads(pickle.dumps(again))
    assert begun + [next(resumed).name for _ in range(len(twice) - 15)] == first
    assert [next(twice.sampler(seed=4)).name, next(twice.sampler(seed=5)).name] != first[:2]
    with pytest.raises(CorpusError, match="no module to draw from"):
        twice[:0].sampler(seed=0)


def test_a_negative_number_of_modules_is_an_error(twice: Corpus) -> None:
    with pytest.raises(CorpusError, match="found -1"):
        twice.sample(-1, seed=0)


def test_a_missing_cmd_is_said_by_opening_and_by_verify(
    make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path: Path
) -> None:
    for name, level in (("a", "-Oz"), ("b", "-Os")):
        shutil.copy(make_bitcode("calls.c", optimize=level), tmp_path / f"{name}.bc")
    write_command(tmp_path / "a.cmd", BENIGN)
    write_description(tmp_path, ["a", "b"])
    with pytest.warns(CorpusWarning, match="1 of the first 2 modules have no recorded flags"):
        corpus = open_corpus(tmp_path, toolchain=toolchain)
    (problem,) = verify(corpus, toolchain)
    assert (problem.module, "compiled with -Os -fPIC" in problem.text) == ("b", True)
    assert "-Os" in plan(corpus.module("b"), toolchain).flags


def test_the_embedded_bitcode_of_an_extraction_is_no_part_of_the_object(calls: Path, toolchain: Toolchain) -> None:
    flags = (*BENIGN, "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt", "-fembed-bitcode=all")
    assert plan(Module("m", calls, flags), toolchain).flags == (*BENIGN, "-w")


def test_extraction_again_repairs_what_was_cut_off_deleted_or_of_another_kind(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    build, corpus = tmp_path / "build", tmp_path / "corpus"
    build.mkdir()
    (tmp_path / "f.c").write_text("int f(int x) { return x + 1; }\n")
    embed = ["--target=x86_64-linux-musl", "-c", "-Xclang", "-fembed-bitcode=all", str(tmp_path / "f.c")]
    assert toolchain.run([*embed, "-o", str(build / "f.o")]).returncode == 0
    extract_corpus(from_directory(build), corpus)
    whole = {path.name: path.read_bytes() for path in corpus.iterdir()}
    made = (corpus / "f.o.bc").stat()
    (corpus / "f.o.cmd").unlink()
    (corpus / "f.o.thinlto.bc").write_bytes(b"of another extraction")
    extract_corpus(from_directory(build), corpus)
    assert {path.name: path.read_bytes() for path in corpus.iterdir()} == whole
    assert (corpus / "f.o.bc").stat().st_ino == made.st_ino
    for damage in (whole["f.o.bc"][:-8], bytes(len(whole["f.o.bc"]))):
        (corpus / "f.o.bc").write_bytes(damage)
        extract_corpus(from_directory(build), corpus)
        assert (corpus / "f.o.bc").read_bytes() == whole["f.o.bc"]


def test_empty_and_cut_off_and_huge_files_are_refused_by_name_at_small_cost(calls: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.bc"
    for content in (b"", b"BC", calls.read_bytes()[:-4]):
        path.write_bytes(content)
        with pytest.raises(CorpusError, match=r"m\.bc: LLVM bitcode was wanted"):
            read_bitcode(path)
    with path.open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(CorpusError, match="magic number"):
        read_bitcode(path)


def test_a_name_that_is_a_dataset_and_a_folder_is_warned_of_and_both_can_be_spelled_out(
    calls: Path, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "zstd"
    folder.mkdir()
    shutil.copy(calls, folder / "m.bc")
    write_command(folder / "m.cmd", BENIGN)
    write_description(folder, ["m"])
    fetched: list[str] = []

    def fetch(name: str, **_: object) -> Path:
        fetched.append(name)
        return folder

    monkeypatch.setattr(opening, "fetch_dataset", fetch)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CorpusWarning, match=r"write \./zstd for that, or dataset:zstd for the dataset"):
        open_corpus("zstd", toolchain=toolchain)
    assert open_corpus("./zstd", toolchain=toolchain).path == Path("zstd")
    assert open_corpus("dataset:zstd", toolchain=toolchain).names == ["m"] or fetched == ["zstd", "zstd"]
    assert fetched == ["zstd", "zstd"]
