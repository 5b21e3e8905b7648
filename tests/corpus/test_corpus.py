"""Corpora: opening, looking up, filtering, splitting and sampling."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus import opening
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.sampling import PARTS, is_test
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

SIZES = {"lib/a.o": 30, "lib/b.o": 10, "main.o": 20}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A described corpus of three files of known sizes; `main.o` has no flags."""
    root = tmp_path / "made"
    for name, size in SIZES.items():
        path = root / f"{name}.bc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    write_command(root / "lib/a.o.cmd", ["-cc1", "-Oz", "-triple", "a"])
    write_command(root / "lib/b.o.cmd", ["-cc1", "-Os"])
    write_metadata(root, "lib/a.o", {"source": "a.c"})
    write_description(root, SIZES)
    return root


def test_a_described_folder_opens_in_the_order_of_its_description(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.names) == list(SIZES)
    assert corpus.name == "made"
    assert corpus.path == folder
    assert [module.name for module in corpus] == list(SIZES)


def test_a_module_has_its_flags_and_its_metadata(folder: Path, toolchain: Toolchain) -> None:
    module = open_corpus(folder, toolchain=toolchain)[0]
    assert module == Module("lib/a.o", folder / "lib/a.o.bc", ("-cc1", "-Oz", "-triple", "a"))
    assert module.metadata == {"source": "a.c"}


def test_flags_replace_only_those_that_were_not_recorded(folder: Path, toolchain: Toolchain) -> None:
    assert open_corpus(folder, toolchain=toolchain)[2].flags is None
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-O2"])
    assert [module.flags for module in corpus] == [("-cc1", "-Oz", "-triple", "a"), ("-cc1", "-Os"), ("-O2",)]


def test_the_global_override_stands_in_for_every_command(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, SIZES, global_command_override=["-cc1", "-O1"])
    assert {module.flags for module in open_corpus(folder, toolchain=toolchain)} == {("-cc1", "-O1")}


def test_an_override_that_nobody_filled_in_is_an_error(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, SIZES, global_command_override=["<UNSPECIFIED>"])
    with pytest.raises(CorpusError, match="write the -cc1 flags of the link"):
        open_corpus(folder, toolchain=toolchain)


def test_an_empty_override_leaves_every_module_its_own_flags(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, SIZES, global_command_override=[])
    corpus = open_corpus(folder, toolchain=toolchain, flags=["-O2"])
    assert [module.flags for module in corpus] == [("-cc1", "-Oz", "-triple", "a"), ("-cc1", "-Os"), ("-O2",)]


def test_a_folder_of_bitcode_needs_no_description(folder: Path, toolchain: Toolchain) -> None:
    (folder / "corpus_description.json").unlink()
    (folder / "main.o.thinlto.bc").write_bytes(b"x")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert list(corpus.names) == sorted(SIZES)
    assert corpus.module("lib/b.o").flags == ("-cc1", "-Os")


def test_a_single_file_is_a_corpus_of_one(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(str(folder / "lib/b.o.bc"), toolchain=toolchain)
    assert [(module.name, module.flags) for module in corpus] == [("b.o", ("-cc1", "-Os"))]
    plain = open_corpus(folder / "main.o.bc", toolchain=toolchain, flags=["-O3"])
    assert [(module.name, module.flags) for module in plain] == [("main.o", ("-O3",))]
    assert plain.size("main.o") == 20


def test_a_corpus_opens_as_itself(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)
    assert open_corpus(corpus, toolchain=toolchain) is corpus


def test_a_path_wins_over_a_name(
    folder: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder.rename(tmp_path / "builtin")
    monkeypatch.chdir(tmp_path)
    assert list(open_corpus("./builtin", toolchain=toolchain).names) == list(SIZES)
    assert "lib/a.o" not in open_corpus("builtin", toolchain=toolchain)


def test_a_folder_can_be_named_without_a_slash(
    folder: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert len(open_corpus("made", toolchain=toolchain)) == 3


def test_an_unknown_name_is_an_error_that_lists_what_there_is(toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"no corpus 'zstandrd'.*builtin.*zstd"):
        open_corpus("zstandrd", toolchain=toolchain)


@pytest.mark.parametrize(
    "spec", ["", "csmith:", "csmith:x", "builtin@O9", "zstd@O9", "pypi:x", "/nowhere/at/all", "x.bc"]
)
def test_a_malformed_specification_is_a_corpus_error(spec: str, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError):
        open_corpus(spec, toolchain=toolchain)


def test_an_empty_folder_is_an_error(tmp_path: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match=r"there is no \.bc file"):
        open_corpus(tmp_path, toolchain=toolchain)


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


def test_a_listed_module_without_bitcode_is_an_error_when_it_is_asked_for(folder: Path, toolchain: Toolchain) -> None:
    (folder / "main.o.bc").unlink()
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus[0].name == "lib/a.o"
    with pytest.raises(CorpusError, match=r"main\.o\.bc"):
        corpus.module("main.o")
    with pytest.raises(CorpusError, match=r"main\.o"):
        corpus.size("main.o")


def test_a_broken_command_is_an_error_when_its_module_is_asked_for(folder: Path, toolchain: Toolchain) -> None:
    (folder / "lib/a.o.cmd").write_bytes(b"-Oz\0")
    corpus = open_corpus(folder, toolchain=toolchain)
    assert corpus.module("lib/b.o")
    with pytest.raises(CorpusError, match="begin with -cc1"):
        corpus.module("lib/a.o")


def test_a_thinlto_module_takes_the_index_of_the_corpus(folder: Path, toolchain: Toolchain) -> None:
    write_command(folder / "lib/a.o.cmd", ["-cc1", "-fthinlto-index=/build/lib/a.o.thinlto.bc", "-O2"])
    with pytest.raises(CorpusError, match="name a ThinLTO index"):
        open_corpus(folder, toolchain=toolchain).module("lib/a.o")
    (folder / "lib/a.o.thinlto.bc").write_bytes(b"index")
    module = open_corpus(folder, toolchain=toolchain).module("lib/a.o")
    assert module.flags == ("-cc1", "-O2")
    assert module.thinlto_index == folder / "lib/a.o.thinlto.bc"


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


def test_a_filter_by_decisions_asks_the_given_function(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain)

    def count(module: Module, task: str) -> int:
        assert task == "inlining"
        return module.bitcode.stat().st_size

    assert list(corpus.filter(decisions=("inlining", 10, 20), count=count).names) == ["lib/b.o", "main.o"]
    with pytest.raises(CorpusError, match="needs `count`"):
        corpus.filter(decisions=("inlining", 1, None))


def test_a_malformed_expression_is_an_error(folder: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="no regular expression"):
        open_corpus(folder, toolchain=toolchain).filter(regex="(")


def test_a_filtered_out_module_is_not_found(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain).filter(names="lib/*")
    with pytest.raises(CorpusError, match="no module"):
        corpus.module("main.o")


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


def test_contradicting_edits_are_refused_at_once(folder: Path, toolchain: Toolchain) -> None:
    with pytest.raises(CorpusError, match="both added and deleted"):
        open_corpus(folder, toolchain=toolchain).with_flags(add=["-g"], delete=["-g"])


def test_edits_that_do_not_fit_name_the_module(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(folder, toolchain=toolchain).with_flags(replace={"-triple": "x"})
    assert corpus[0].flags == ("-cc1", "-Oz", "-triple", "x")
    with pytest.raises(CorpusError, match=r"lib/b\.o: .*-triple"):
        corpus.module("lib/b.o")
    with pytest.raises(CorpusError, match=r"main\.o: it has no recorded flags"):
        corpus.module("main.o")


def many(folder: Path, number: int) -> Path:
    write_description(folder, [f"project{index % 9}/module{index}" for index in range(number)])
    return folder


def test_train_and_test_are_disjoint_and_whole(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(many(tmp_path, 500), toolchain=toolchain)
    train, test = corpus.split("train"), corpus.split("test")
    assert set(train.names) | set(test.names) == set(corpus.names)
    assert not set(train.names) & set(test.names)
    assert 60 < len(test) < 140


def test_a_module_stays_on_its_side_when_others_are_added(tmp_path: Path, toolchain: Toolchain) -> None:
    small = open_corpus(many(tmp_path, 100), toolchain=toolchain).split("test")
    large = open_corpus(many(tmp_path, 500), toolchain=toolchain).split("test")
    assert [name for name in large.names if int(name.partition("module")[2]) < 100] == list(small.names)


def test_a_module_is_on_the_same_side_alone_and_joined(tmp_path: Path, toolchain: Toolchain) -> None:
    one, two = many(tmp_path / "one", 50), many(tmp_path / "two", 70)
    joined = open_corpus(f"{one},{two}", toolchain=toolchain).split("test")
    alone = [
        f"{path.name}/{name}"
        for path in (one, two)
        for name in open_corpus(path, toolchain=toolchain).split("test").names
    ]
    assert list(joined.names) == alone


def test_a_project_is_on_one_side(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(many(tmp_path, 500), toolchain=toolchain)
    sides = [{corpus.project(name) for name in corpus.split(part, by="project").names} for part in ("train", "test")]
    assert sides[0] | sides[1] == {f"project{index}" for index in range(9)}
    assert not sides[0] & sides[1]


def test_the_project_of_a_description_counts_for_all_its_modules(tmp_path: Path, toolchain: Toolchain) -> None:
    write_description(tmp_path, ["a/x", "b/y"], project="zlib")
    corpus = open_corpus(tmp_path, toolchain=toolchain)
    assert {corpus.project(name) for name in corpus.names} == {"zlib"}


@pytest.mark.parametrize(
    "arguments", [{"part": "validation"}, {"part": "train", "by": "file"}, {"part": "train", "test_fraction": 2}]
)
def test_an_impossible_split_is_an_error(folder: Path, toolchain: Toolchain, arguments: dict[str, object]) -> None:
    with pytest.raises(CorpusError, match="a split is"):
        open_corpus(folder, toolchain=toolchain).split(**arguments)  # type: ignore[arg-type]


def test_a_hundred_thousand_modules_take_a_second_of_processor_time_and_100_mb(tmp_path: Path) -> None:
    names = [f"third_party/project{index % 100}/source/module_number_{index}.o" for index in range(100_000)]
    write_description(tmp_path, names)
    (tmp_path / f"{names[77_777]}.bc").parent.mkdir(parents=True)
    (tmp_path / f"{names[77_777]}.bc").write_bytes(b"x")
    program = f"""
import json, os, time
from pathlib import Path
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.toolchain import find_toolchain
def resident():  # now, not at most: looking for the compiler took more than this corpus does
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
toolchain = find_toolchain("bundled")
before = resident()
start = time.process_time()
corpus = open_corpus({str(tmp_path)!r}, toolchain=toolchain)
module = corpus.module({names[77_777]!r})
seconds = time.process_time() - start
print(json.dumps([len(corpus), module.name, seconds, resident() - before]))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    length, name, seconds, memory = json.loads(answer.stdout)
    assert (length, name) == (100_000, names[77_777])
    assert seconds < 1.0
    assert 1_000_000 < memory < 100_000_000


def test_the_representation_tells_name_and_size(folder: Path, toolchain: Toolchain) -> None:
    corpus: Corpus = open_corpus(folder, toolchain=toolchain)
    assert re.fullmatch(r"Corpus\('made', 3 modules\)", repr(corpus))


# Parts by name


def test_a_part_of_a_corpus_has_a_name(tmp_path: Path, toolchain: Toolchain) -> None:
    path = many(tmp_path, 100)
    whole = open_corpus(path, toolchain=toolchain)
    for part in PARTS:
        corpus = open_corpus(f"{path}:{part}", toolchain=toolchain)
        assert corpus.name == f"{whole.name}:{part}"
        assert list(corpus.names) == list(whole.split(part).names)
        assert corpus.path == path


def test_a_part_comes_after_the_level(toolchain: Toolchain) -> None:
    corpus = open_corpus("builtin@Os:test", toolchain=toolchain)
    assert corpus.name == "builtin@Os:test"
    assert list(corpus.names) == list(open_corpus("builtin", toolchain=toolchain).split("test").names)
    assert corpus[0].metadata["optimize"] == "Os"


def test_modules_of_joined_parts_are_called_as_those_of_the_whole(tmp_path: Path, toolchain: Toolchain) -> None:
    one, two = many(tmp_path / "one", 30), many(tmp_path / "two", 30)
    joined = open_corpus(f"{one}:test,{two}", toolchain=toolchain)
    whole = open_corpus(f"{one},{two}", toolchain=toolchain)
    assert joined.name == "one:test,two"
    assert 30 < len(joined) < 60
    assert set(joined.names) < set(whole.names)
    assert {*map(joined.origin, joined.names)} <= {*map(whole.origin, whole.names)}


def test_a_split_by_project_has_names_too(toolchain: Toolchain) -> None:
    whole = open_corpus("builtin", toolchain=toolchain)
    split = [open_corpus(f"builtin:{part}-projects", toolchain=toolchain) for part in ("train",)]
    assert [list(corpus.names) for corpus in split] == [list(whole.split("train", by="project").names)]


def test_a_part_without_a_module_is_an_error(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, ["main.o"])
    side, other = ("test", "train") if is_test("main.o", 0.2) else ("train", "test")
    assert len(open_corpus(f"{folder}:{side}", toolchain=toolchain)) == 1
    with pytest.raises(CorpusError, match=f"made:{other} has no module: that part of the split is empty"):
        open_corpus(f"{folder}:{other}", toolchain=toolchain)


def test_of_the_catalogues_projects_only_those_of_the_part_are_fetched(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    fetched = []

    def fetch(name: str, *, optimize: str, toolchain: Toolchain) -> Path:
        fetched.append((name, optimize))
        return folder

    monkeypatch.setattr(opening, "fetch_dataset", fetch)
    corpus = open_corpus("catalogue@Os:test-projects", toolchain=toolchain)
    assert fetched == [("lightgbm", "Os"), ("zstd", "Os")]
    assert corpus.name == "catalogue@Os:test-projects"
    assert [*corpus.names[:2]] == ["lightgbm@Os/lib/a.o", "lightgbm@Os/lib/b.o"]
    assert corpus.project("zstd@Os/main.o") == "zstd"


def test_a_folder_whose_name_looks_like_a_part_is_a_folder(folder: Path, toolchain: Toolchain) -> None:
    folder.rename(folder.parent / "mine:test")
    assert len(open_corpus(f"{folder.parent}/mine:test", toolchain=toolchain)) == 3
