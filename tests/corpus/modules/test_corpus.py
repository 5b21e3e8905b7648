"""Corpora: lookup, filters, splits, samples and edited flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import SIZES, many_modules


def test_joined_corpora_put_their_names_first(folder: Path, toolchain: Toolchain) -> None:
    other = folder.parent / "other"
    folder.joinpath("lib").rename(other)
    write_description(folder, ["main.o"])
    corpus = open_corpus(f"{folder}, {other}", toolchain=toolchain)
    assert list(corpus.names) == ["made/main.o", "other/a.o", "other/b.o"]
    module = corpus.module("other/b.o")
    assert (module.name, module.bitcode) == ("other/b.o", other / "b.o.bc")
    assert corpus.size("other/b.o") == 10
    assert corpus.origin("other/b.o") == ("other", "b.o")


def test_corpora_of_the_same_name_cannot_be_joined(folder: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="different names"):
        open_corpus(f"{folder},{folder}", toolchain=toolchain)


def test_an_unknown_module_is_an_error_with_close_matches(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    with pytest.raises(CorpusError, match=r"has no module 'lib/c\.o'; did you mean lib/"):
        corpus.module("lib/c.o")


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({"names": "lib/*"}, ["lib/a.o", "lib/b.o"]),
        ({"names": ["*/a.o", "main.?"]}, ["lib/a.o", "main.o"]),
        ({"names": []}, []),
        ({"regex": r"[ab]\.o$"}, ["lib/a.o", "lib/b.o"]),
        ({"bytes": (15, None)}, ["lib/a.o", "main.o"]),
        ({"bytes": (0, 20)}, ["lib/b.o", "main.o"]),
        ({"names": "lib/*", "bytes": (20, 30)}, ["lib/a.o"]),
    ],
)
def test_a_filter_keeps_what_fits_every_condition(
    folder: Path, toolchain: Toolchain, conditions: dict[str, object], kept: list[str]
) -> None:
    corpus = open_corpus(folder, toolchain=toolchain).filter(**conditions)  # type: ignore[arg-type]
    assert list(corpus.names) == kept
    assert len(corpus) == len(kept)


def test_a_slice_is_a_corpus(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus[1:].names == list(corpus.names)[1:]
    assert [module.name for module in corpus[::-1][:2]] == list(corpus.names)[:0:-1]


def test_sorting_is_by_the_size_of_the_bitcode(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.sorted_by_size().names) == ["lib/b.o", "main.o", "lib/a.o"]
    assert list(corpus.sorted_by_size(descending=True).names) == ["lib/a.o", "main.o", "lib/b.o"]


def test_samples_are_modules_and_depend_on_the_seed_alone(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    drawn = corpus.sample(10, seed=1, replacement=True)
    assert drawn == corpus.sample(10, seed=1, replacement=True)
    assert {module.name for module in corpus.sample(3, seed=9)} == set(SIZES)
    assert {module.name for module in corpus.sample(3, seed=9, strata=3)} == set(SIZES)


def test_edited_flags_are_those_of_every_module(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-Oz"]).with_flags(replace={"-O": "2"}, add=["-w"])
    assert [module.flags for module in corpus] == [
        ("-cc1", "-O2", "-triple", "a", "-w"),
        ("-cc1", "-O2", "-w"),
        ("-O2", "-w"),
    ]


def test_edits_that_do_not_fit_name_the_module(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain).with_flags(replace={"-triple": "x"})
    assert corpus[0].flags == ("-cc1", "-Oz", "-triple", "x")
    with pytest.raises(CorpusError, match=r"lib/b\.o: .*-triple"):
        corpus.module("lib/b.o")
    with pytest.raises(CorpusError, match=r"main\.o: expected recorded flags"):
        corpus.module("main.o")


def test_train_and_test_partition_the_corpus(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(many_modules(tmp_path, 500), toolchain=toolchain)
    train, test = corpus.split("train"), corpus.split("test")
    assert set(train.names) | set(test.names) == set(corpus.names)
    assert not set(train.names) & set(test.names)
    assert 60 < len(test) < 140


def test_a_module_stays_on_its_side_when_others_are_added(tmp_path: Path, toolchain: Toolchain) -> None:
    small = open_corpus(many_modules(tmp_path, 100), toolchain=toolchain).split("test")
    large = open_corpus(many_modules(tmp_path, 500), toolchain=toolchain).split("test")
    assert [name for name in large.names if int(name.partition("module")[2]) < 100] == list(small.names)


def test_a_module_is_on_the_same_side_alone_and_joined(tmp_path: Path, toolchain: Toolchain) -> None:
    one, two = many_modules(tmp_path / "one", 50), many_modules(tmp_path / "two", 70)
    joined = open_corpus(f"{one},{two}", toolchain=toolchain).split("test")
    alone = [
        f"{path.name}/{name}"
        for path in (one, two)
        for name in open_corpus(path, toolchain=toolchain).split("test").names
    ]
    assert list(joined.names) == alone


def test_a_project_is_on_one_side(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(many_modules(tmp_path, 500), toolchain=toolchain)
    sides = [{corpus.project(name) for name in corpus.split(part, by="project").names} for part in ("train", "test")]
    assert sides[0] | sides[1] == {f"project{index}" for index in range(9)}
    assert not sides[0] & sides[1]


@pytest.mark.parametrize(
    "arguments", [{"part": "validation"}, {"part": "train", "by": "file"}, {"part": "train", "test_fraction": 2}]
)
def test_an_impossible_split_is_an_error(folder: Path, toolchain: Toolchain, arguments: dict[str, object]) -> None:
    with pytest.raises(CorpusError, match="expected a part of"):
        open_corpus(folder, toolchain=toolchain).split(**arguments)  # type: ignore[arg-type]


def test_a_negative_number_of_modules_is_an_error(compiled_twice: Corpus) -> None:
    with pytest.raises(CorpusError, match="got -1"):
        compiled_twice.sample(-1, seed=0)
