"""The 22 tests of LLVM's mlgo-utils, one by one, for `extract`, `make` and `combine` of this package.

Deliberate differences are listed in docs/reference/corpora.md and stated in the tests.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.modules.description import read_description
from mlgo_gym.corpus.modules.make import combine_corpora, make_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.object_list import (
    BuildObject,
    from_compile_commands,
    from_directory,
    from_linker_parameters,
    from_local_thinlto,
)
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

BUILD = Path("/build")


def run(*words: object) -> str:
    """Run `mlgo-gym corpus` with the options of LLVM's scripts and check its exit status."""
    result = CliRunner().invoke(application, ["corpus", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def describe(folder: Path, **content: object) -> None:
    """Write a description as another tool would."""
    folder.mkdir(parents=True)
    (folder / "corpus_description.json").write_text(json.dumps(content))


@pytest.fixture
def objects(tmp_path: Path, toolchain: Toolchain) -> Path:
    """A build folder with two objects that hold their bitcode and their flags."""
    folder = tmp_path / "build"
    (folder / "lib").mkdir(parents=True)
    (tmp_path / "f.c").write_text("int f(int x) { return x + 1; }\n")
    for name in ("test1.o", "lib/test2.o"):
        flags = ["--target=x86_64-unknown-linux-musl", "-Xclang", "-fembed-bitcode=all", "-Oz", "-c"]
        answer = toolchain.run([*flags, str(tmp_path / "f.c"), "-o", str(folder / name)])
        assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(params=["", "nest/"])
def saved_by_lld(request: pytest.FixtureRequest, tmp_path: Path, calls: Path) -> tuple[Path, str]:
    """A folder with what lld saves of three modules of a local ThinLTO link, and where in it they are."""
    folder = tmp_path / "lto"
    (folder / request.param).mkdir(parents=True)
    for number in (1, 2, 3):
        shutil.copy(calls, folder / f"{request.param}{number}.3.import.bc")
        (folder / f"{request.param}{number}.thinlto.bc").write_bytes(b"index")
    return folder, request.param


# Lists of objects


@pytest.mark.parametrize(
    "words",
    [
        {"command": "-cc1 -c /source/lib/one.cc -o lib/one.o"},
        {"arguments": ["-cc1", "-c", "/source/lib/one.cc", "-o", "lib/one.o"]},
    ],
)
def test_1_and_2_a_compile_command_in_either_form_is_the_object_below_its_folder(words: dict[str, object]) -> None:
    found = from_compile_commands([{"directory": str(BUILD), "file": "/source/lib/one.cc", **words}])
    assert found.objects == [BuildObject("lib/one.o", BUILD / "lib/one.o", BUILD)]


def test_3_several_compile_commands_are_as_many_objects_in_order() -> None:
    commands = [
        {"directory": str(BUILD), "file": f"{name}.cc", "command": f"-cc1 -c {name}.cc -o lib/{name}.o"}
        for name in ("one", "other/two")
    ]
    names = [(each.name, each.path) for each in from_compile_commands(commands).objects]
    assert names == [("lib/one.o", BUILD / "lib/one.o"), ("lib/other/two.o", BUILD / "lib/other/two.o")]


@pytest.mark.parametrize("based", [True, False])
def test_4_and_5_flags_and_bitcode_are_those_of_the_object_below_its_base_or_here(
    objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, based: bool
) -> None:
    monkeypatch.chdir(tmp_path if based else objects)
    base = objects if based else Path()
    found = from_linker_parameters(["lib/test2.o"], base)
    assert extract_corpus(found, tmp_path / "corpus").modules == ["lib/test2.o"]
    assert (tmp_path / "corpus/lib/test2.o.cmd").read_bytes().startswith(b"-cc1\0")
    assert (tmp_path / "corpus/lib/test2.o.bc").read_bytes().startswith(b"BC\xc0\xde")


def test_6_linker_parameters_are_the_objects_among_them_without_the_output() -> None:
    words = ["-o", "bin/program", "lib/one.o", "some.a", "-W,blah", "lib/other/two.o"]
    found = from_linker_parameters(words, Path("/base"))
    assert [(each.name, each.path) for each in found.objects] == [
        ("lib/one.o", Path("/base/lib/one.o")),
        ("lib/other/two.o", Path("/base/lib/other/two.o")),
    ]


def test_7_a_folder_is_all_objects_below_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for number in (1, 2):
        (tmp_path / f"below/{number}.o").touch()
    found = from_directory(tmp_path).objects
    assert sorted((each.name, each.base) for each in found) == [("below/1.o", tmp_path), ("below/2.o", tmp_path)]


def test_8_9_and_10_what_lld_saved_is_found_and_extracted_nested_as_it_is(
    saved_by_lld: tuple[Path, str], tmp_path: Path
) -> None:
    folder, nest = saved_by_lld
    found = from_local_thinlto(folder)
    names = [f"{nest}{number}" for number in (1, 2, 3)]
    assert sorted((each.name, each.base) for each in found.objects) == [(name, folder) for name in names]
    report = extract_corpus(found, tmp_path / "corpus", thinlto_build="local")
    assert sorted(report.modules) == names
    written = sorted(path.name for path in (tmp_path / "corpus" / nest).iterdir() if path.name[0] in "123")
    assert written == [f"{number}{suffix}" for number in (1, 2, 3) for suffix in (".bc", ".thinlto.bc")]


@pytest.mark.parametrize(("expression", "taken"), [(None, True), (".*", True), ("^-Oz$", True), ("^-O3$", False)])
def test_11_a_filter_takes_modules_with_an_argument_that_it_matches(
    objects: Path, tmp_path: Path, expression: str | None, taken: bool
) -> None:
    def extract() -> list[str]:
        found = from_linker_parameters(["test1.o"], objects)
        return extract_corpus(found, tmp_path / "corpus", cmd_filter=expression).modules

    if taken:
        assert extract() == ["test1.o"]
    else:
        # Theirs writes an empty corpus; this package raises.
        with pytest.raises(CorpusError, match="excluded by the filter"):
            extract()


def test_12_the_thinlto_index_is_that_of_the_flags_below_the_base(tmp_path: Path, toolchain: Toolchain) -> None:
    (tmp_path / "f.c").write_text("int f(int x) { return x + 1; }\n")
    (tmp_path / "foo").mkdir()
    (tmp_path / "foo/bar.thinlto.bc").write_bytes(b"index")
    flags = ["--target=x86_64-unknown-linux-musl", "-Oz", "-emit-llvm", "-c", str(tmp_path / "f.c")]
    assert toolchain.run([*flags, "-o", str(tmp_path / "f.bc")]).returncode == 0
    words = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-fembed-bitcode=all"]
    answer = toolchain.run(
        [*words, "-fthinlto-index=", "-x", "ir", str(tmp_path / "f.bc"), "-o", str(tmp_path / "f.o")]
    )
    assert answer.returncode == 0, answer.stderr
    # The index is named in the object's flags afterwards: clang would read one that is named now.
    _write_flags(tmp_path / "f.o", b"-cc1\0-Oz\0-fthinlto-index=foo/bar.thinlto.bc\0", toolchain)
    found = from_linker_parameters(["f.o"], tmp_path)
    extract_corpus(found, tmp_path / "corpus", thinlto_build="distributed")
    assert (tmp_path / "corpus/f.o.thinlto.bc").read_bytes() == b"index"


def _write_flags(target: Path, flags: bytes, toolchain: Toolchain) -> None:
    """Make an object with these flags and the bitcode of `f.bc` beside it."""
    (target.parent / "flags").write_bytes(flags)
    assembly = (
        f'.section .llvmcmd,"e",@progbits\n.incbin "{target.parent / "flags"}"\n'
        f'.section .llvmbc,"e",@progbits\n.incbin "{target.parent / "f.bc"}"\n'
    )
    (target.parent / "f.s").write_text(assembly)
    words = ["--target=x86_64-unknown-linux-musl", "-c", str(target.parent / "f.s"), "-o", str(target)]
    answer = toolchain.run(words)
    assert answer.returncode == 0, answer.stderr


# make


def test_13_and_14_bitcode_of_a_folder_is_copied_nested_as_it_is(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "from/nested").mkdir(parents=True)
    for number in (1, 2):
        shutil.copy(calls, tmp_path / f"from/nested/test{number}.bc")
    assert make_corpus(tmp_path / "from", tmp_path / "to").modules == ["nested/test1", "nested/test2"]
    assert sorted(path.name for path in (tmp_path / "to/nested").iterdir()) == ["test1.bc", "test2.bc"]


def test_15_the_description_has_the_modules_and_the_default_arguments(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "from/test").mkdir(parents=True)
    for number in (1, 2):
        shutil.copy(calls, tmp_path / f"from/test/test{number}.bc")
    make_corpus(tmp_path / "from", tmp_path / "to", default_args=["-O3", "-c"])
    content = json.loads((tmp_path / "to/corpus_description.json").read_text())
    assert content == {
        "global_command_override": ["-O3", "-c"],
        "has_thinlto": False,
        "modules": ["test/test1", "test/test2"],
    }


# combine


def test_16_combined_modules_are_called_after_their_folders(tmp_path: Path) -> None:
    describe(tmp_path / "one", has_thinlto=False, modules=["test1.o", "test2.o"])
    describe(tmp_path / "two", has_thinlto=False, modules=["test3.o", "test4.o"])
    combine_corpora(tmp_path)
    content = json.loads((tmp_path / "corpus_description.json").read_text())
    assert content["has_thinlto"] is False
    assert sorted(content["modules"]) == ["one/test1.o", "one/test2.o", "two/test3.o", "two/test4.o"]


def test_17_and_18_empty_folders_and_other_files_are_no_corpora(tmp_path: Path) -> None:
    describe(tmp_path / "one", modules=["test1.o", "test2.o"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.log").touch()
    assert len(combine_corpora(tmp_path)) == 2


def test_19_corpora_that_differ_in_anything_else_are_not_combined(tmp_path: Path) -> None:
    describe(tmp_path / "one", has_thinlto=False, modules=["test1.o"])
    describe(tmp_path / "two", has_thinlto=True, modules=["test2.o"])
    with pytest.raises(CorpusError, match="differ in has_thinlto"):
        combine_corpora(tmp_path)


# The commands


def test_20_the_command_extract_writes_each_module_with_its_flags(objects: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    run("extract", f"--input={objects}", "--input_type=directory", f"--output_dir={corpus}")
    description = read_description(corpus)
    assert not description.has_thinlto
    assert sorted(description.modules) == ["lib/test2.o", "test1.o"]
    assert {path.name for path in corpus.iterdir()} == {"corpus_description.json", "lib", "test1.o.bc", "test1.o.cmd"}
    assert {path.name for path in (corpus / "lib").iterdir()} == {"test2.o.bc", "test2.o.cmd"}


def test_21_the_command_make_describes_what_it_copies(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "from").mkdir()
    for number in (1, 2):
        shutil.copy(calls, tmp_path / f"from/test{number}.bc")
    run("make", f"--input_dir={tmp_path / 'from'}", f"--output_dir={tmp_path / 'to'}", "--default_args=-test")
    description = read_description(tmp_path / "to")
    assert (description.global_command_override, description.has_thinlto) == (("-test",), False)
    assert sorted(description.modules) == ["test1", "test2"]
    assert {path.name for path in (tmp_path / "to").iterdir()} == {"corpus_description.json", "test1.bc", "test2.bc"}


def test_22_the_command_combine_describes_all_modules(tmp_path: Path) -> None:
    describe(tmp_path / "one", has_thinlto=False, modules=["test1.o"])
    describe(tmp_path / "two", has_thinlto=False, modules=["test2.o"])
    run("combine", f"--root_dir={tmp_path}")
    description = read_description(tmp_path)
    assert not description.has_thinlto
    assert sorted(description.modules) == ["one/test1.o", "two/test2.o"]
