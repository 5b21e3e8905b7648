"""The corpus tests of google/ml-compiler-opt, one by one, for this package.

Its loader puts the user's additions after the input; this package puts them before it, which clang treats alike. Other
differences are stated in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.commands.flags import edit_flags
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

SPLIT_DWARF = ("-split-dwarf-file", "-split-dwarf-output", "-fthinlto-index", "-fprofile-sample-use")
SIZES = {"smol": 1, "middle": 200, "largest": 500, "small": 100}

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def make(tmp_path: Path, toolchain: Toolchain) -> MakeCorpus:
    """Return a function that makes a corpus of modules of given sizes, with the same flags."""

    def make_one(
        sizes: dict[str, int],
        *,
        flags: tuple[str, ...] | None = ("-cc1",),
        override: tuple[str, ...] | None = None,
        thinlto: bool = False,
    ) -> Corpus:
        for name, size in sizes.items():
            (tmp_path / f"{name}.bc").write_bytes(bytes(size))
            if flags is not None:
                data = b"".join(flag.encode() + b"\0" for flag in flags)
                (tmp_path / f"{name}.cmd").write_bytes(data)
            if thinlto:
                (tmp_path / f"{name}.thinlto.bc").write_bytes(b"index")
        write_description(tmp_path, sizes, has_thinlto=thinlto, global_command_override=override)
        return open_corpus(tmp_path, toolchain=toolchain)

    return make_one


def test_1_deleting_takes_flags_with_their_values_and_misses_none_that_is_absent() -> None:
    flags = ("-cc1", "-fthinlto-index=bad", "-split-dwarf-file", "/tmp/foo.dwo", "-split-dwarf-output", "some.dwo")
    assert edit_flags(flags, delete=SPLIT_DWARF) == ("-cc1",)
    assert edit_flags(("-cc1",), delete=SPLIT_DWARF) == ("-cc1",)


def test_2_added_flags_come_last() -> None:
    assert edit_flags(("-cc1",), add=("-fix-all-bugs", "-something=x")) == ("-cc1", "-fix-all-bugs", "-something=x")


def test_3_a_replaced_flag_has_to_be_there_joined_or_separate() -> None:
    with pytest.raises(CorpusError, match="expected one -replace-me to replace, got 0"):
        edit_flags(("-cc1",), replace={"-replace-me": "new"})
    assert edit_flags(("-cc1", "-replace-me=old"), replace={"-replace-me": "new"}) == ("-cc1", "-replace-me=new")
    # This package knows which flags take a value, so the test uses a real one.
    assert edit_flags(("-cc1", "-target-cpu", "old"), replace={"-target-cpu": "new"}) == ("-cc1", "-target-cpu", "new")


def test_4_a_module_is_its_flags_and_its_bitcode(make: MakeCorpus, tmp_path: Path, toolchain: Toolchain) -> None:
    (module,) = make({"smth": 1})
    compilation = plan(module, toolchain)
    assert compilation.flags[0] == "-cc1"
    assert compilation.inputs == ("-x", "ir", str(tmp_path / "smth.bc"))
    assert module.bitcode.read_bytes() == bytes(1)


def test_5_a_corpus_has_its_modules_with_added_flags(make: MakeCorpus, toolchain: Toolchain) -> None:
    corpus = make({"1": 1}).with_flags(add=("-O1",))
    assert (len(corpus), corpus.size("1")) == (1, 1)
    assert corpus[0].flags == ("-cc1", "-O1")
    assert corpus[0].thinlto_index is None


@pytest.mark.parametrize(
    "edits",
    [
        {"add": ("-fsomething",), "replace": {"-fsomething": "x"}},
        {"add": ("-fsomething=new",), "replace": {"-fsomething": "x"}},
        {"delete": ("-fsomething",), "replace": {"-fsomething": "x"}},
        {"add": ("-fsomething",), "delete": ("-fsomething",)},
        {"add": ("-fsomething=x",), "delete": ("-fsomething",)},
    ],
)
def test_6_a_flag_is_named_in_one_list_alone(make: MakeCorpus, edits: dict[str, object]) -> None:
    with pytest.raises(CorpusError, match="name it once"):
        make({"smol": 1}).with_flags(**edits)  # type: ignore[arg-type]


def test_7_recorded_flags_begin_with_cc1(make: MakeCorpus) -> None:
    # This package opens the corpus and refuses the module when it is loaded.
    with pytest.raises(CorpusError, match="begin with -cc1"):
        make({"smol": 1}, flags=("-hi",)).module("smol")


def test_8_a_description_without_modules_is_refused(make: MakeCorpus) -> None:
    with pytest.raises(CorpusError, match=r"expected \.bc files"):
        make({})


def test_9_a_recorded_index_gives_way_to_that_of_the_corpus(
    make: MakeCorpus, tmp_path: Path, toolchain: Toolchain
) -> None:
    (module,) = make({"smol": 1}, flags=("-cc1", "-fthinlto-index=foo"), thinlto=True)
    command = plan(module, toolchain).command
    index = f"-fthinlto-index={tmp_path / 'smol.thinlto.bc'}"
    assert [word for word in command if word.startswith("-fthinlto-index")] == [index]
    assert command[-6:] == ("-x", "ir", str(tmp_path / "smol.bc"), index, "-mllvm", "-thinlto-assume-merged")


def test_10_braces_in_flags_are_no_placeholders(make: MakeCorpus, toolchain: Toolchain) -> None:
    macro = "-DMACRO(expr)=do {} while(0) {context.module_full_path}"
    (module,) = make({"somename": 1}, flags=("-cc1", macro))
    assert macro in plan(module, toolchain).flags


@pytest.mark.parametrize("override", [("-cc1",), ("-cc1", "-O1")])
def test_11_an_override_stands_in_for_all_flags_and_the_index_is_added(
    make: MakeCorpus, tmp_path: Path, toolchain: Toolchain, override: tuple[str, ...]
) -> None:
    # Theirs reads an empty override as no flags; this package ignores it, since LLVM's make_corpus writes it.
    (module,) = make({"smol": 1}, flags=None, override=override, thinlto=True)
    compilation = plan(module, toolchain)
    assert compilation.flags[: len(override)] == override
    index = f"-fthinlto-index={tmp_path / 'smol.thinlto.bc'}"
    assert compilation.inputs[-3:] == (index, "-mllvm", "-thinlto-assume-merged")


def test_12_a_sample_can_be_sorted_by_size(make: MakeCorpus) -> None:
    corpus = make(SIZES)
    drawn = corpus.sample(4, seed=0)
    assert sorted(module.name for module in drawn) == sorted(SIZES)
    assert list(corpus.sorted_by_size(descending=True).names) == ["largest", "middle", "small", "smol"]


def test_13_a_sample_without_replacement_has_each_module_once(make: MakeCorpus) -> None:
    # Theirs is a sampler that is exhausted then; this package's module_order="shuffle" starts another round.
    corpus = make(SIZES)
    assert sorted(module.name for module in corpus.sample(4, seed=0)) == sorted(SIZES)
    with pytest.raises(CorpusError, match="without replacement"):
        corpus.sample(5, seed=0)


def test_14_modules_are_filtered_by_name_before_they_are_drawn(make: MakeCorpus) -> None:
    corpus = make(SIZES).filter(regex=".+l")
    # Theirs returns all modules if the sample is too large; this package refuses.
    assert sorted(module.name for module in corpus.sample(3, seed=0)) == ["middle", "small", "smol"]


@pytest.mark.parametrize("count", [0, -213213213])
def test_15_a_draw_of_nothing(make: MakeCorpus, count: int) -> None:
    corpus = make({"smol": 1})
    if count:
        with pytest.raises(CorpusError, match="≥ 0"):
            corpus.sample(count, seed=0)
    else:  # theirs refuses it too; this package returns an empty list, as random.sample does
        assert corpus.sample(0, seed=0) == []


@pytest.mark.parametrize("seed", range(4))
def test_16_a_stratified_draw_has_one_of_each_stratum(make: MakeCorpus, seed: int) -> None:
    corpus = make({str(size): size for size in range(100)})
    drawn = sorted((corpus.size(module.name) for module in corpus.sample(20, seed=seed, strata=20)), reverse=True)
    assert [size // 5 for size in drawn] == list(range(19, -1, -1))


def test_17_a_stratified_draw_can_be_of_all_of_them_also_of_a_prime_number(make: MakeCorpus) -> None:
    corpus = make({str(size): size for size in range(101)})
    assert sorted(corpus.size(module.name) for module in corpus.sample(101, seed=0, strata=20)) == list(range(101))


def test_18_a_stratified_draw_can_be_of_fewer_than_strata(make: MakeCorpus) -> None:
    corpus = make({str(size): size for size in range(100)})
    for count in range(1, 20):
        assert len(corpus.sample(count, seed=count, strata=20)) == count
