"""Corpora: folders, lookup, filters, splits, samples, edited flags, and the order of their modules in episodes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym import CorpusError, open_corpus
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.datasets.catalogue import dataset_names
from mlgo_gym.corpus.folder import write_command, write_description, write_metadata
from mlgo_gym.corpus.module_order import ModuleOrder, OrderCursor
from mlgo_gym.corpus.parts import PARTS, Part, family_parts, is_part, is_project_part
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import SIZES, many_modules


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


def test_samples_depend_on_the_seed_alone_and_have_each_module_once(opened: Corpus) -> None:
    samples = [[module.name for module in opened.sample(2, seed=seed)] for seed in range(9)]
    assert samples == [[module.name for module in opened.sample(2, seed=seed)] for seed in range(9)]
    assert len({*map(tuple, samples)}) > 1
    assert {module.name for module in opened.sample(3, seed=9)} == set(SIZES)
    for number in (4, -1):
        with pytest.raises(CorpusError, match=f"got {number}"):
            opened.sample(number, seed=0)


def test_parts_have_whole_projects_and_cover_their_corpus(tmp_path: Path, toolchain: Toolchain) -> None:
    assert 1_800 < sum(is_part(f"m{number}", "test") for number in range(10_000)) < 2_200
    corpus = open_corpus(many_modules(tmp_path, 500), toolchain=toolchain)
    parts = {part: set(corpus.split(part).names) for part in PARTS}
    assert parts["train"] | parts["test"] == set(corpus.names)
    assert parts["fit"] | parts["valid"] == parts["train"]
    assert not parts["train"] & parts["test"]
    assert not parts["fit"] & parts["valid"]
    projects = [{corpus.project(name) for name in parts[part]} for part in ("fit", "valid", "test")]
    assert sum(map(len, projects)) == len(set().union(*projects)) == 9
    assert min(map(len, projects)) > 0


@pytest.mark.parametrize("part", PARTS)
def test_the_part_of_a_module_is_the_same_in_every_view(tmp_path: Path, toolchain: Toolchain, part: Part) -> None:
    one, two = many_modules(tmp_path / "one", 100), many_modules(tmp_path / "two", 500)
    small, large = (open_corpus(path, toolchain=toolchain) for path in (one, two))
    expected = set(large.split(part).names)
    assert set(small.split(part).names) == expected & set(small.names)
    assert set(large.filter(names="*7").split(part).names) == {name for name in expected if name.endswith("7")}
    assert set(large[::-3].split(part).names) == expected & set(large.names[::-3])
    assert open_corpus(f"{one}:{part},{two}").name == f"one:{part},two"
    joined = open_corpus(f"{one},{two}", toolchain=toolchain)
    names = [*(f"one/{name}" for name in small.split(part).names), *(f"two/{name}" for name in large.split(part).names)]
    assert list(joined.split(part).names) == list(open_corpus(f"{one}:{part},{two}:{part}").names) == names
    assert list(joined.filter(names="one/*").split(part).names) == names[: len(small.split(part))]


def test_each_dataset_is_in_one_part() -> None:
    assert {*dataset_names()} <= {*family_parts()}
    for name in dataset_names():
        parts = {part for part in PARTS if is_project_part(name, "", part)}
        assert parts in ({"test"}, {"train", "fit"}, {"train", "valid"})
    # So are versions of a library and projects that contain it.
    for names in (("zstd", "blosc", "lz4", "xxhash"), ("lua-5.4.6", "lua-5.1", "LUA"), ("libx_2.0.1-rc1", "libx")):
        for part in PARTS:
            assert len({is_project_part(name, "m", part) for name in names}) == 1, (names, part)
    assert {is_project_part("x86", "m", part) for part in PARTS} == {is_part("x86", part) for part in PARTS}


@pytest.mark.parametrize("by", ["source_sha256", "bitcode"])
def test_no_module_has_a_copy_in_a_part_that_is_held_out(tmp_path: Path, toolchain: Toolchain, by: str) -> None:
    folders = [tmp_path / f"corpus{number}" for number in range(20)]
    for folder in folders:
        names = [f"{folder.name}{letter}/m{number}" for letter in "ab" for number in range(4)]
        for name in names:
            path = folder / f"{name}.bc"
            path.parent.mkdir(parents=True, exist_ok=True)
            content = name[-1] if name[-1] < "3" else name
            path.write_text(content if by == "bitcode" else name)
            if by != "bitcode":
                write_metadata(folder, name, {by: content})
        write_description(folder, names)
    corpus = open_corpus(",".join(map(str, folders)), toolchain=toolchain)
    digests = {part: {module.source_digest() for module in corpus.split(part)} for part in PARTS}
    assert all(digests.values())
    assert not digests["train"] & digests["test"]
    assert not digests["fit"] & digests["valid"]
    assert len(corpus.split("test")) == sum(is_project_part(*corpus.origin(name), "test") for name in corpus.names)
    parts = [open_corpus(",".join(f"{folder}:{part}" for folder in folders), toolchain=toolchain) for part in PARTS]
    assert [list(opened.names) for opened in parts] == [list(corpus.split(part).names) for part in PARTS]


NAMES = [f"lib/{letter}" for letter in "abcde"] + ["main"]


def taken(order: ModuleOrder, count: int, seed: int = 0, cursor: OrderCursor | None = None) -> list[int]:
    np_random, cursor = np.random.default_rng(seed), cursor or OrderCursor()
    return [position for _ in range(count) if (position := order.draw(np_random, cursor, frozenset())) is not None]


def test_environments_that_go_together_share_a_round() -> None:
    for name in ("cycle", "shuffle"):
        shares = [taken(ModuleOrder(NAMES, name), 2, number, OrderCursor(number, 3)) for number in range(3)]
        assert sorted(position for share in shares for position in share) == [0, 1, 2, 3, 4, 5]


def test_weights_make_modules_likelier() -> None:
    order = ModuleOrder(NAMES, {"main": 5, "lib/a": 0, "lib/*": 1})
    counts = Counter(taken(order, 9_000))
    assert 0 not in counts
    assert 4_700 < counts[5] < 5_300
    assert all(850 < counts[position] < 1_150 for position in (1, 2, 3, 4))
