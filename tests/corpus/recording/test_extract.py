"""Objects of a build, and corpora from them; test names state LLVM's behaviour, or a defect of LLVM's tools.

Numbers in names are those of LLVM's own tests of mlgo-utils.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.folder import CorpusReport, read_command, read_description
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus, read_elf_sections, read_with_objcopy
from mlgo_gym.corpus.recording.object_list import (
    BuildObject,
    ObjectList,
    from_bazel_aquery,
    from_compile_commands,
    from_directory,
    from_linker_parameters,
    from_local_thinlto,
    read_object_list,
)
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import corpus_command, description, files_below, write_files

Build = Callable[..., Path]
Extract = Callable[..., CorpusReport]
CODE = "static int f(int x) { return x * 3; }\nint g(int x) { return f(x) + f(x + 1); }"


@pytest.fixture
def build(tmp_path: Path, toolchain: Toolchain) -> Build:
    """Return a function that compiles a source to `build/NAME` with embedded bitcode."""

    def compile_one(name: str, source: str = "int x;", *flags: str, embed: bool = True) -> Path:
        (tmp_path / "source.c").write_text(source)
        target = tmp_path / "build" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        words = [*(["-Xclang", "-fembed-bitcode=all"] if embed else []), "-Oz", *flags, "-c"]
        target_words = ["--target=x86_64-unknown-linux-musl", *words, str(tmp_path / "source.c"), "-o", str(target)]
        result = toolchain.run(target_words)
        assert result.returncode == 0, result.stderr
        return target

    return compile_one


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The folder of the corpus."""
    return tmp_path / "corpus"


@pytest.fixture
def extract(tmp_path: Path, output: Path) -> Extract:
    """Return a function that extracts the objects in `build`."""
    return lambda **options: extract_corpus(from_directory(tmp_path / "build"), output, **options)


def test_a_module_has_the_bitcode_and_the_flags_of_its_object_and_compiles_to_its_text(
    build: Build, extract: Extract, tmp_path: Path, output: Path, toolchain: Toolchain
) -> None:
    target = build("lib/x.o", CODE)
    assert extract().modules == ["lib/x.o"]
    assert read_description(output).modules == ("lib/x.o",)
    assert not read_description(output).has_thinlto
    assert read_bitcode(output / "lib/x.o.bc").minsize == 2
    flags = read_command(output / "lib/x.o.cmd")
    assert flags[0] == "-cc1"
    assert {"-Oz", "-emit-obj"} <= set(flags)
    assert not {"-o", "-x"} & set(flags)
    corpus = open_corpus(output, toolchain=toolchain)
    assert verify(corpus, toolchain) == []
    again = tmp_path / "again.o"
    result = toolchain.run([*flags, "-x", "ir", str(corpus[0].bitcode), "-o", str(again)])
    assert result.returncode == 0, result.stderr
    assert read_elf_sections(again, (".text",)) == read_elf_sections(target, (".text",))


def test_objects_that_fail_are_skipped_and_named_and_leave_nothing(
    build: Build, extract: Extract, tmp_path: Path, output: Path
) -> None:
    data = build("good.o").read_bytes()
    build("plain.o", embed=False)
    (tmp_path / "build/text.o").write_text("no object")
    (tmp_path / "build/halved.o").write_bytes(data.replace(b".llvmbc", b".noneXX"))
    truncated = bytearray(data)
    struct.pack_into("<Q", truncated, 0x28, len(data) + 1000)
    (tmp_path / "build/truncated.o").write_bytes(truncated)
    names = ("good", "plain", "text", "none", "halved", "truncated")
    commands = [{"directory": str(tmp_path / "build"), "command": f"cc -o {name}.o"} for name in names]
    report = extract_corpus(from_compile_commands(commands), output)
    assert report.modules == ["good.o"]
    reasons = dict(report.skipped)
    assert set(reasons) == {f"{name}.o" for name in names[1:]}
    assert "expected a section .llvmcmd" in reasons["plain.o"]
    assert "expected a complete ELF object" in reasons["text.o"]
    assert "No such file" in reasons["none.o"]
    assert sorted(path.name for path in output.iterdir()) == ["corpus_description.json", "good.o.bc", "good.o.cmd"]
    shutil.rmtree(output)
    (tmp_path / "build/good.o").unlink()
    with pytest.raises(CorpusError, match=r"in 4 objects, got none.*; skipped: 2 of expected a complete ELF object, 1"):
        extract()
    assert not output.exists()


def test_sections_can_have_other_names(build: Build, extract: Extract) -> None:
    target = build("a.o")
    target.write_bytes(target.read_bytes().replace(b".llvmcmd", b".mycommd").replace(b".llvmbc", b".mybitc"))
    assert extract(cmd_section=".mycommd", bitcode_section=".mybitc").modules == ["a.o"]


def test_defect_bytes_that_are_no_text_do_not_end_the_run(build: Build, extract: Extract, output: Path) -> None:
    build("a.o")
    target = build("b.o", "int x;", "-DNAME=some-long-name")
    target.write_bytes(target.read_bytes().replace(b"some-long-name", b"some\xff\nong-nam\xe9"))
    assert extract(cmd_filter="-Oz").modules == ["a.o", "b.o"]
    assert b"NAME=some\xff\nong-nam\xe9" in (output / "b.o.cmd").read_bytes()
    assert read_command(output / "b.o.cmd")[0] == "-cc1"


def test_an_interrupted_extraction_is_finished_by_the_next_and_a_rebuilt_object_is_extracted_again(
    build: Build, extract: Extract, output: Path
) -> None:
    for name in ("a.o", "b.o", "c.o"):
        build(name)
    steps = iter(range(2))

    def stop() -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(jobs=1, progress=stop)
    assert not (output / "corpus_description.json").exists()
    first = (output / "a.o.bc").stat()
    assert extract(jobs=1).modules == ["a.o", "b.o", "c.o"]
    assert (output / "a.o.bc").stat().st_ino == first.st_ino
    os.utime(build("a.o", "int f(void) { return 1; }"), ns=(1, 1))
    extract()
    assert read_bitcode(output / "a.o.bc").functions == 1


def thinlto_objects(build: Build, tmp_path: Path, index: str) -> ObjectList:
    """Build an object whose recorded flags name a ThinLTO index; the bytes of the section are all that is looked at."""
    target = build("lib/x.o", "int x;", "-DINDEX=" + "x" * 40)
    # The driver separates -D from its value: two words become one flag and one that means nothing.
    recorded = f"-D\0INDEX={'x' * 40}".encode()
    flags = f"-fthinlto-index={index}\0-D".encode()
    data = target.read_bytes()
    assert data.count(recorded) == 1
    target.write_bytes(data.replace(recorded, flags.ljust(len(recorded), b"y")))
    return from_directory(tmp_path / "build")


@pytest.mark.parametrize("index", ["lib/x.thinlto.bc", "lib/a=b.bc"])
def test_distributed_thinlto_copies_the_index_that_the_flags_name_uncut(
    index: str, build: Build, extract: Extract, tmp_path: Path, output: Path
) -> None:
    objects = thinlto_objects(build, tmp_path, index)
    with pytest.raises(CorpusError, match="ThinLTO index is missing"):
        extract_corpus(objects, output, thinlto_build="distributed")
    assert not output.exists()
    (tmp_path / "build" / index).write_bytes(b"summary")
    (tmp_path / "build/lib/a").write_bytes(b"cut")
    assert extract_corpus(objects, output, thinlto_build="distributed").modules == ["lib/x.o"]
    assert (output / "lib/x.o.thinlto.bc").read_bytes() == b"summary"
    assert read_description(output).has_thinlto
    assert f"-fthinlto-index={index}" in read_command(output / "lib/x.o.cmd")


def test_local_thinlto_copies_what_lld_saved_and_asks_for_flags(
    tmp_path: Path, output: Path, toolchain: Toolchain
) -> None:
    (tmp_path / "build" / "nest").mkdir(parents=True)
    (tmp_path / "build" / "nest" / "1.3.import.bc").write_bytes(b"bitcode")
    (tmp_path / "build" / "nest" / "1.thinlto.bc").write_bytes(b"summary")
    report = extract_corpus(from_local_thinlto(tmp_path / "build"), output, thinlto_build="local")
    assert report.modules == ["nest/1"]
    assert (output / "nest/1.bc").read_bytes() == b"bitcode"
    assert (output / "nest/1.thinlto.bc").read_bytes() == b"summary"
    content = json.loads((output / "corpus_description.json").read_text())
    assert content == {"modules": ["nest/1"], "has_thinlto": True, "global_command_override": ["<UNSPECIFIED>"]}
    with pytest.raises(CorpusError, match="UNSPECIFIED"):
        open_corpus(output, toolchain=toolchain)


def test_impossible_options_are_errors(build: Build, extract: Extract) -> None:
    build("x.o")
    for options, message in (
        ({"thinlto_build": "full"}, "full"),
        ({"thinlto_build": "local", "cmd_filter": "x"}, "filter"),
        ({"thinlto_build": "distributed"}, "expected -fthinlto-index="),
    ):
        with pytest.raises(CorpusError, match=message):
            extract(**options)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("llvm-objcopy") is None, reason="llvm-objcopy is not installed")
def test_llvm_objcopy_and_our_reader_read_the_same(build: Build, extract: Extract) -> None:
    target = build("a.o", CODE)
    names = (".llvmcmd", ".llvmbc")
    assert read_with_objcopy("llvm-objcopy", target, names) == read_elf_sections(target, names)
    with pytest.raises(CorpusError, match="llvm-objcopy cannot read its sections"):
        read_with_objcopy("llvm-objcopy", target, (".nothing",))
    assert extract(llvm_objcopy="llvm-objcopy").modules == ["a.o"]


BASE = Path("/output/directory")


def command_of(*arguments: str, **keys: Any) -> dict[str, Any]:
    """Return a command of a compilation database."""
    words = {"arguments": ["clang", "-c", "foo.c", *arguments]} if arguments else {}
    return {"directory": str(BASE), "file": "foo.c", **words, **keys}


def test_broken_commands_and_those_without_an_object_are_skipped_and_counted() -> None:
    broken = [{}, {"directory": "/x"}, {"directory": "/x", "command": "cc -o 'x"}, 7, {"directory": "/", "command": 7}]
    silent = command_of("-objc-isystem", "d", "-opt-record-file", "r")
    others = [command_of("-S"), command_of("-fsyntax-only"), command_of("@absent")]
    listed = from_compile_commands([*broken, None, silent, *others, command_of(command="cc -c y.c -o y.o")])
    assert [entry.name for entry in listed.objects] == ["foo.o", "y.o"]
    assert dict(CorpusReport(skipped=listed.skipped).reasons) == {
        "expected a compile command": 6,
        "its command writes no object": 2,
        "its response file cannot be read": 1,
    }


def test_an_object_is_the_output_of_the_command_with_its_response_files_else_of_the_entry_else_of_the_source(
    tmp_path: Path,
) -> None:
    build = write_files(
        tmp_path / "build",
        {
            "all.rsp": "-O2 @more.rsp",
            "more.rsp": '-c "a b.c"\n-o "out/a b.o"',
            "own.rsp": "-c x.c @own.rsp",
            "flags.params": "-c\nsrc/x.c\n-o\nbin/x.o\n",
        },
    )
    entries: list[tuple[dict[str, Any], str]] = [
        ({"command": "cc @all.rsp"}, "out/a b.o"),
        ({"arguments": ["cc", f"@{build}/flags.params"]}, "bin/x.o"),
        ({"command": "cc -c x.c -o x.o", "output": "other.o"}, "x.o"),
        ({"command": "cc -c x.c", "output": "objects/x.o"}, "objects/x.o"),
        ({"command": "cc -c x.c @absent", "output": "y.o"}, "y.o"),
        ({"command": "cc -c ../src/stem.v2.c", "file": "../src/stem.v2.c"}, "stem.v2.o"),
        ({"command": "cc @own.rsp", "output": "own.o"}, "own.o"),
    ]
    database = tmp_path / "compile_commands.json"
    database.write_text(json.dumps([{"directory": "build", "file": "x.c", **entry} for entry, _ in entries]))
    listed = read_object_list(database, "json")
    assert [(entry.name, entry.path) for entry in listed.objects] == [(name, build / name) for _, name in entries]
    assert listed.skipped == []


def test_parameter_files_in_a_link_are_read_and_unreadable_ones_counted(tmp_path: Path) -> None:
    write_files(tmp_path, {"two.params": "two.o\n@three.params\n@two.params\n", "three.params": "a b.o\n-o\nx.o\n"})
    link = ["-o", "program", "one.o", "-Wl,@two.params", "@absent.params"]
    listed = from_linker_parameters(link, tmp_path)
    assert [entry.name for entry in listed.objects] == ["one.o", "two.o", "a b.o"]
    unread = [(name, "the parameter file cannot be read") for name in ("@two.params", "@absent.params")]
    assert listed.skipped == unread
    files = [{"execPath": "absent.params", "arguments": ["three.o"]}]
    action = {"mnemonic": "CppLink", "arguments": link, "paramFiles": files}
    assert [entry.name for entry in from_bazel_aquery({"actions": [action]}, tmp_path).objects][-1] == "three.o"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["-ofoo.o"], "foo.o"),
        (["--output=foo.o"], "foo.o"),
        (["--output", "foo.o"], "foo.o"),
        (["-o", "x.o", "-o", "foo.o"], "foo.o"),
        (["-o", "/output/directory/lib/x.o"], "lib/x.o"),
        (["-o", "/elsewhere/x.o"], "elsewhere/x.o"),
        (["-o", "../sibling/x.o"], "output/sibling/x.o"),
        (["-o", "lib/../x.o"], "x.o"),
        (["-o", "../../../../etc/x.o"], "etc/x.o"),
        (["-o", "my lib/my file.o"], "my lib/my file.o"),
    ],
    ids=" ".join,
)
def test_defect_no_spelling_of_an_output_is_missed_or_escapes_the_corpus(words: list[str], name: str) -> None:
    quoted = command_of(command="cc -c 'my file.c' -DX=\"a b\" " + " ".join(f'"{word}"' for word in words))
    for command in (command_of(*words), quoted):
        (item,) = from_compile_commands([command]).objects
        assert (item.name, item.path) == (name, BASE / words[-1].removeprefix("--output=").removeprefix("-o"))


def test_defect_equal_outputs_in_different_folders_do_not_overwrite_each_other(tmp_path: Path) -> None:
    def names(*outputs: tuple[str, str]) -> list[str]:
        commands = [command_of("-o", name, directory=str(tmp_path / folder)) for folder, name in outputs]
        (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
        return [item.name for item in read_object_list(tmp_path / "compile_commands.json", "json").objects]

    assert names(("one", "lib/x.o"), ("two", "lib/x.o"), ("one", "lib/y.o")) == [
        *("one/lib/x.o", "two/lib/x.o", "lib/y.o")
    ]
    renamed = names(("one", "x.o"), ("two", "x.o"), ("", "one/x.o/x.o"), (".", "two/x.o"))
    assert len(set(renamed)) == len(renamed)


def test_of_a_bazel_query_the_last_link_is_taken() -> None:
    compiles = {"mnemonic": "CppCompile", "arguments": ["cc", "-o", "x.o"]}
    actions = [
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "a", "first.o"]},
        compiles,
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "b", "second.o", "x.a"]},
        {"mnemonic": "CppArchive", "arguments": ["ar", "third.o"]},
    ]
    assert [item.name for item in from_bazel_aquery({"actions": actions}, BASE).objects] == ["second.o"]
    queries: list[Any] = [{}, [], {"actions": []}, {"actions": [compiles]}]
    for query in queries:
        with pytest.raises(CorpusError, match="expected a CppLink action"):
            from_bazel_aquery(query, BASE)


def test_of_a_local_thinlto_link_half_modules_are_skipped_and_named(tmp_path: Path) -> None:
    for name in ("1.3.import.bc", "2.thinlto.bc", "3.3.import.bc", "3.thinlto.bc"):
        (tmp_path / name).touch()
    found = from_local_thinlto(tmp_path)
    assert [item.name for item in found.objects] == ["3"]
    assert found.skipped == [("1", "its .thinlto.bc is missing"), ("2", "its .3.import.bc is missing")]


def test_an_input_that_is_something_else_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "input"
    for kind, content in (("json", "{"), ("json", "{}"), ("bazel_aquery", "x"), ("directory", "x"), ("ninja", "")):
        source.write_text(content)
        with pytest.raises(CorpusError):
            read_object_list(source, kind)
    source.unlink()
    for kind in ("json", "params"):
        with pytest.raises(CorpusError):
            read_object_list(source, kind)


def test_6_linker_parameters_are_the_objects_among_them_without_the_output() -> None:
    words = ["-o", "bin/program", "lib/one.o", "some.a", "-W,blah.o", "lib/other/two.o"]
    listed = from_linker_parameters(words, BASE)
    assert listed.objects == [BuildObject(name, BASE / name, BASE) for name in ("lib/one.o", "lib/other/two.o")]


@pytest.mark.parametrize("based", [True, False])
def test_4_and_5_flags_and_bitcode_are_those_of_the_object_below_its_base_or_here(
    build: Build, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, based: bool
) -> None:
    folder = build("lib/test2.o").parents[1]
    monkeypatch.chdir(tmp_path if based else folder)
    listed = from_linker_parameters(["lib/test2.o"], folder if based else Path())
    assert extract_corpus(listed, output).modules == ["lib/test2.o"]
    assert (output / "lib/test2.o.cmd").read_bytes().startswith(b"-cc1\0")
    assert (output / "lib/test2.o.bc").read_bytes().startswith(b"BC\xc0\xde")


def test_11_a_filter_takes_modules_with_an_argument_that_it_matches(build: Build, extract: Extract) -> None:
    build("test1.o")
    for expression in (None, ".*", "^-Oz$"):
        assert extract(cmd_filter=expression).modules == ["test1.o"]
    # Theirs writes an empty corpus; this package raises.
    with pytest.raises(CorpusError, match="excluded by the filter"):
        extract(cmd_filter="^-O3$")


def test_7_and_20_a_folder_is_all_objects_below_it_each_with_its_flags(build: Build, output: Path) -> None:
    for name in ("test1.o", "lib/test2.o"):
        folder = build(name).parent
    corpus_command("extract", f"--input={folder.parent}", "--input_type=directory", f"--output_dir={output}")
    assert description(output) == {"has_thinlto": False, "modules": ["lib/test2.o", "test1.o"]}
    names = [f"{name}.o{suffix}" for name in ("lib/test2", "test1") for suffix in (".bc", ".cmd")]
    assert files_below(output) == names
