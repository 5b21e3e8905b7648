"""Corpora: folders, lookup, filters, splits, samples and edited flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.corpus.corpus import PARTS, Corpus, Module, is_part, is_test
from mlgo_gym.corpus.folder import write_command, write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import COUNT, SIZES, many_modules


@pytest.fixture
def opened(folder: Path, toolchain: Toolchain) -> Corpus:
    """The corpus of the described folder."""
    return open_corpus(folder, toolchain=toolchain)


def test_a_described_folder_has_its_modules_in_order_with_flags_and_metadata(opened: Corpus, folder: Path) -> None:
    assert (opened.name, opened.path, len(opened)) == ("made", folder, 3)
    assert list(opened.names) == [module.name for module in opened] == list(SIZES)
    assert opened[0] == Module("lib/a.o", folder / "lib/a.o.bc", ("-cc1", "-Oz", "-triple", "a"))
    assert opened[0].metadata == {"source": "a.c"}
    assert opened[2].flags is None
    assert opened[1:].names == list(SIZES)[1:]
    assert [module.name for module in opened[::-1][:2]] == list(SIZES)[:0:-1]


def test_a_subset_takes_names_and_a_filter_takes_patterns(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, ["a[1].o", "a1.o", "b*.o", "b2.o"])
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.subset(["b*.o", "a[1].o", "elsewhere.o"]).names) == ["a[1].o", "b*.o"]
    assert list(corpus.filter(names=["a[1].o", "b*.o"]).names) == ["a1.o", "b*.o", "b2.o"]


def test_flags_and_overrides_replace_recorded_ones_as_documented(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-O2"])
    assert [module.flags for module in corpus] == [("-cc1", "-Oz", "-triple", "a"), ("-cc1", "-Os"), ("-O2",)]
    write_description(folder, SIZES, global_command_override=["-cc1", "-O1"])
    assert {module.flags for module in open_corpus(folder, toolchain=toolchain)} == {("-cc1", "-O1")}
    write_description(folder, SIZES, global_command_override=["<UNSPECIFIED>"])  # by LLVM's extractor
    with pytest.raises(CorpusError, match="expected flags in 'global_command_override', got <UNSPECIFIED>"):
        open_corpus(folder, toolchain=toolchain)
    (folder / "corpus_description.json").unlink()
    (folder / "main.o.thinlto.bc").write_bytes(b"x")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.names) == sorted(SIZES)
    assert corpus.module("lib/b.o").flags == ("-cc1", "-Os")


def test_a_broken_module_is_an_error_when_it_is_asked_for(opened: Corpus, folder: Path) -> None:
    (folder / "main.o.bc").unlink()
    (folder / "lib/a.o.cmd").write_bytes(b"-Oz\0")
    assert opened.module("lib/b.o").flags == ("-cc1", "-Os")
    for name, message in (("main.o", r"main\.o\.bc"), ("lib/a.o", "begin with -cc1"), ("lib/c.o", "did you mean lib/")):
        with pytest.raises(CorpusError, match=message):
            opened.module(name)
    with pytest.raises(CorpusError, match=r"main\.o"):
        opened.size("main.o")


def test_a_thinlto_module_takes_the_index_of_the_corpus(opened: Corpus, folder: Path) -> None:
    write_command(folder / "lib/a.o.cmd", ["-cc1", "-fthinlto-index=/build/lib/a.o.thinlto.bc", "-O2"])
    with pytest.raises(CorpusError, match="expected the ThinLTO index of lib/a"):
        opened.module("lib/a.o")
    (folder / "lib/a.o.thinlto.bc").write_bytes(b"index")
    module = opened.module("lib/a.o")
    assert (module.flags, module.thinlto_index) == (("-cc1", "-O2"), folder / "lib/a.o.thinlto.bc")


def test_joined_corpora_put_their_names_first(folder: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="different names"):
        open_corpus(f"{folder},{folder}", toolchain=toolchain)
    other = folder.parent / "other"
    folder.joinpath("lib").rename(other)
    write_description(folder, ["main.o"])
    corpus = open_corpus(f"{folder}, {other}", toolchain=toolchain)
    assert list(corpus.names) == ["made/main.o", "other/a.o", "other/b.o"]
    module = corpus.module("other/b.o")
    assert (module.name, module.bitcode) == ("other/b.o", other / "b.o.bc")
    assert corpus.size("other/b.o") == 10
    assert corpus.origin("other/b.o") == ("other", "b.o")


def test_a_filter_keeps_what_fits_every_condition(opened: Corpus) -> None:
    assert list(opened.filter(names="lib/*").names) == ["lib/a.o", "lib/b.o"]
    assert list(opened.filter(names=["*/a.o", "main.?"]).names) == ["lib/a.o", "main.o"]
    assert list(opened.filter(names=[]).names) == []
    assert list(opened.filter(bytes=(15, None)).names) == ["lib/a.o", "main.o"]
    assert list(opened.filter(bytes=(0, 20)).names) == ["lib/b.o", "main.o"]
    assert list(opened.filter(names="lib/*", bytes=(20, 30)).names) == ["lib/a.o"]


def test_edited_flags_are_those_of_every_module_or_name_it(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-Oz"]).with_flags(delete=["-O"], add=["-O2", "-w"])
    edited = [("-cc1", "-triple", "a", "-O2", "-w"), ("-cc1", "-O2", "-w"), ("-O2", "-w")]
    assert [module.flags for module in corpus] == edited
    corpus = open_corpus(folder, toolchain=toolchain).with_flags(delete=["-triple"])
    assert corpus[0].flags == ("-cc1", "-Oz")
    with pytest.raises(CorpusError, match=r"main\.o: expected recorded flags"):
        corpus.module("main.o")


NAMES = [f"m{number}" for number in range(100)]


def test_samples_depend_on_the_seed_alone_and_have_each_module_once(opened: Corpus) -> None:
    samples = [[module.name for module in opened.sample(2, seed=seed)] for seed in range(9)]
    assert samples == [[module.name for module in opened.sample(2, seed=seed)] for seed in range(9)]
    assert len({*map(tuple, samples)}) > 1
    assert {module.name for module in opened.sample(3, seed=9)} == set(SIZES)
    for number in (4, -1):
        with pytest.raises(CorpusError, match=f"got {number}"):
            opened.sample(number, seed=0)


def test_the_side_of_a_name_never_moves_and_parts_partition_their_whole(tmp_path: Path, toolchain: Toolchain) -> None:
    assert [name for name in NAMES[:20] if is_test(name, 0.2)] == ["m2", "m3", "m4", "m7", "m10"]
    assert 1_800 < sum(is_test(f"m{number}", 0.2) for number in range(10_000)) < 2_200
    assert not [name for name in NAMES if is_part(name, "test") != is_test(name, 0.2)]
    corpus = open_corpus(many_modules(tmp_path, 500), toolchain=toolchain)
    parts = {part: set(corpus.split(part).names) for part in PARTS}
    assert parts["train"] | parts["test"] == set(corpus.names)
    assert parts["fit"] | parts["valid"] == parts["train"]
    assert not parts["train"] & parts["test"]
    assert not parts["fit"] & parts["valid"]
    assert 60 < len(parts["test"]) < 140
    assert 30 < len(parts["valid"]) < 130
    sides = [{corpus.project(name) for name in corpus.split(part, by="project").names} for part in ("train", "test")]
    assert sides[0] | sides[1] == {f"project{index}" for index in range(9)}
    assert not sides[0] & sides[1]


def test_a_module_is_on_the_same_side_of_larger_and_joined_corpora(tmp_path: Path, toolchain: Toolchain) -> None:
    one, two = many_modules(tmp_path / "one", 100), many_modules(tmp_path / "two", 500)
    small, large = (open_corpus(path, toolchain=toolchain).split("test").names for path in (one, two))
    assert [name for name in large if int(name.partition("module")[2]) < 100] == list(small)
    joined = open_corpus(f"{one},{two}", toolchain=toolchain).split("test")
    assert list(joined.names) == [*(f"one/{name}" for name in small), *(f"two/{name}" for name in large)]


def test_compiles_of_one_source_and_equal_modules_are_in_one_part(compiled_twice: Corpus) -> None:
    train, test = (set(compiled_twice.split(part).names) for part in ("train", "test"))
    assert (len(train) > 0, len(test) > 0, train & test) == (True, True, set())
    groups = [{f".libs/m{number}.o", f"m{number}.o"} for number in range(COUNT)]
    groups[-2:] = [groups[-2] | groups[-1]]
    assert all(group <= train or group <= test for group in groups)
