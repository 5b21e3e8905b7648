"""Corpora by name, path and part of a split, and the builtin one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mlgo_gym.corpus import builtin, opening
from mlgo_gym.corpus.builtin import PROGRAMS, builtin_folder
from mlgo_gym.corpus.datasets.catalogue import dataset_names, rust_names
from mlgo_gym.corpus.driver import DEFAULT_TARGET
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import CorpusSpec, open_corpus, parse_corpora
from mlgo_gym.corpus.parts import is_part, is_project_part
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files


def test_a_malformed_specification_and_an_empty_folder_are_corpus_errors(toolchain: Toolchain, tmp_path: Path) -> None:
    others = ("", "builtin@O9", "zstd@O9", "pypi:x", "/nowhere/at/all", "x.bc")
    known = {"zstandrd": "no corpus 'zstandrd'; did you mean 'zstd'", str(tmp_path): r"expected \.bc files"}
    for spec, message in {**dict.fromkeys(others), **known}.items():
        with pytest.raises(CorpusError, match=message):
            open_corpus(spec, toolchain=toolchain)


def test_a_specification_has_level_target_and_parts_and_is_printed_as_it_was_written(folder: Path) -> None:
    for text in ("builtin", "zstd@Os:train", "zstd@Oz@thumbv7em:train:fit,rust@O3", "pypi:x==1"):
        assert ",".join(map(str, parse_corpora(text))) == text
        assert {*parse_corpora(text)} == {*parse_corpora(text)}
    first, second, *_ = parse_corpora("benchmark@Os:test")
    assert (str(first), str(second)) == ("builtin@Os:test", "apsw@Os:test")
    (spec,) = parse_corpora("zstd@Os@thumbv7em:train:fit")
    assert spec == CorpusSpec("zstd", "Os", "thumbv7em", ("train", "fit"))
    assert (spec.dataset, str(spec.at("O2").short)) == ("zstd", "zstd@O2@thumbv7em:train:fit")
    assert CorpusSpec("zstd", "Oz", DEFAULT_TARGET).short == CorpusSpec("zstd")
    for spec in (CorpusSpec("zstd", "Os"), CorpusSpec("zstd", "Oz", "thumbv7em")):
        assert spec.short == spec
    assert CorpusSpec("zstd").project == "zstd"
    assert {CorpusSpec(name).project for name in ("programs", *rust_names())} == {None}
    (path,) = parse_corpora(f"{folder}:test")
    assert (path.at("Os"), path.dataset) == (CorpusSpec(str(folder), parts=("test",), is_path=True), None)


def test_a_single_file_is_a_corpus_of_one(folder: Path, toolchain: Toolchain) -> None:
    corpus = open_corpus(str(folder / "lib/b.o.bc"), toolchain=toolchain)
    assert [(module.name, module.flags) for module in corpus] == [("b.o", ("-cc1", "-Os"))]
    plain = open_corpus(folder / "main.o.bc", toolchain=toolchain, flags=["-O3"])
    assert [(module.name, module.flags) for module in plain] == [("main.o", ("-O3",))]
    assert plain.size("main.o") == 20


def test_a_part_without_a_module_is_an_error(folder: Path, toolchain: Toolchain) -> None:
    write_description(folder, ["main.o"])
    side, other = ("test", "train") if is_part("made", "test") else ("train", "test")
    assert len(open_corpus(f"{folder}:{side}", toolchain=toolchain)) == 1
    with pytest.raises(CorpusError, match=f"expected modules in .*made:{other}, got none"):
        open_corpus(f"{folder}:{other}", toolchain=toolchain)


def test_only_the_part_is_fetched(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    fetched = []

    def fetch(name: str, *, optimize: str, target: str, toolchain: Toolchain) -> Path:
        fetched.append((name, optimize, target))
        return folder

    monkeypatch.setattr(opening, "fetch_dataset", fetch)
    corpus = open_corpus("catalogue@Os:test", toolchain=toolchain)
    tested = [name for name in dataset_names() if is_project_part(name, "", "test")]
    assert fetched == [(name, "Os", DEFAULT_TARGET) for name in tested]
    assert corpus.name == "catalogue@Os:test"
    assert [*corpus.names[:2]] == [f"{tested[0]}@Os/lib/a.o", f"{tested[0]}@Os/lib/b.o"]
    assert corpus.project("zstd@Os/main.o") == "zstd"
    fetched.clear()
    with pytest.raises(CorpusError, match="got none: the project zstd is in the part test"):
        open_corpus("zstd:fit", toolchain=toolchain)
    assert not fetched
    assert len(open_corpus("zstd:fit,zstd@Os:test", toolchain=toolchain)) == 3


def test_every_source_is_a_module_without_paths_that_every_clang_compiles(any_toolchain: Toolchain) -> None:
    corpus = open_corpus("builtin", toolchain=any_toolchain)
    assert list(corpus.names) == sorted(f"{path.parent.name}/{path.stem}" for path in PROGRAMS.glob("*/*.c*"))
    for module in corpus:
        flags = module.flags or ()
        assert (PROGRAMS / str(module.metadata["source"])).is_file()
        assert read_bitcode(module.bitcode).triple == "x86_64-unknown-linux-musl"
        assert flags[0] == "-cc1"
        assert not {"-o", "-x", "-main-file-name", "-resource-dir", "-internal-isystem"} & set(flags)
        assert {"-Oz", "-mframe-pointer=none", "pic"} <= set(flags)
        assert str(PROGRAMS).encode() not in module.bitcode.read_bytes()
        assert not any("/" in flag for flag in flags)
    assert verify(corpus, any_toolchain) == []


@pytest.fixture
def two_programs(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of two sources, and an empty cache."""
    one = "#include <string.h>\nint one(char *s) { return (int)strlen(s); }\n"
    two = "#include <math.h>\ndouble two(int x) { return pow(x, 2); }\n"
    folder = write_files(tmp_path / "programs", {"c/one.c": one, "c/two.cpp": two})
    monkeypatch.setattr(builtin, "PROGRAMS", folder)
    return folder


def test_changed_sources_compile_and_wrong_ones_fail(two_programs: Path, toolchain: Toolchain, own_cache: Path) -> None:
    corpus = open_corpus("builtin", toolchain=toolchain)
    assert not any(b"St3__1" in module.bitcode.read_bytes() for module in corpus), "libc++ is for the folder modern"
    before = [module.digest() for module in corpus]
    (two_programs / "c" / "one.c").write_text("int one(int x) { return x; }\n")
    after = [module.digest() for module in open_corpus("builtin", toolchain=toolchain)]
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    for text, message in (
        ("int one(void) { return wrong; }\n", r"(?s)c/one\.c.*undeclared identifier 'wrong'"),
        ("__attribute__((optnone)) int one(void) { return 1; }\n", "expected functions at -Oz"),
    ):
        (two_programs / "c" / "one.c").write_text(text)
        with pytest.raises(CorpusError, match=message):
            open_corpus("builtin", toolchain=toolchain)
        failed = builtin_folder(toolchain, "Oz").name
        assert [path.name for path in (own_cache / "builtin").iterdir() if failed in path.name] == [f".{failed}.lock"]


def test_two_that_ask_at_once_agree(two_programs: Path, toolchain: Toolchain, own_cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: open_corpus("builtin", toolchain=toolchain), range(2))
    assert first.path is not None
    assert (first.path, len(first)) == (second.path, 2)
    name = first.path.name
    assert sorted(path.name for path in (own_cache / "builtin").iterdir()) == [f".{name}.lock", name]
