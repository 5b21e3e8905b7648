"""Objects of a build, and corpora from them; test names state LLVM's behaviour, or a defect of LLVM's tools."""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import CorpusError, open_corpus
from mlgo_gym.corpus import extract_corpus, read_object_list
from mlgo_gym.corpus.folder import CorpusReport, read_command, read_description
from mlgo_gym.corpus.importing import from_compile_commands, read_elf_sections
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.conftest import write_files
from tests.fakes.drive import play

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
    return lambda **options: extract_corpus(read_object_list(tmp_path / "build"), output, **options)


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


def test_objects_that_fail_are_skipped_and_named(build: Build, extract: Extract, tmp_path: Path, output: Path) -> None:
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


def test_defect_bytes_that_are_no_text_do_not_end_the_run(build: Build, extract: Extract, output: Path) -> None:
    build("a.o")
    target = build("b.o", "int x;", "-DNAME=some-long-name")
    target.write_bytes(target.read_bytes().replace(b"some-long-name", b"some\xff\nong-nam\xe9"))
    assert extract().modules == ["a.o", "b.o"]
    assert b"NAME=some\xff\nong-nam\xe9" in (output / "b.o.cmd").read_bytes()
    assert read_command(output / "b.o.cmd")[0] == "-cc1"


def test_an_interrupted_extraction_is_finished_by_the_next_and_a_rebuilt_object_is_extracted_again(
    build: Build, extract: Extract, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    for name in ("a.o", "b.o", "c.o"):
        build(name)
    steps = iter(range(2))

    def stop() -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(progress=stop)
    assert not (output / "corpus_description.json").exists()
    first = (output / "a.o.bc").stat()
    assert extract().modules == ["a.o", "b.o", "c.o"]
    assert (output / "a.o.bc").stat().st_ino == first.st_ino
    os.utime(build("a.o", "int f(void) { return 1; }"), ns=(1, 1))
    extract()
    assert read_bitcode(output / "a.o.bc").functions == 1


@pytest.mark.parametrize("index", ["lib/x.thinlto.bc", "lib/a=b.bc"])
def test_thinlto_copies_its_index(index: str, build: Build, extract: Extract, tmp_path: Path, output: Path) -> None:
    """The recorded flags of an object name the index; the bytes of the section are all that is looked at."""
    target = build("lib/x.o", "int x;", "-DINDEX=" + "x" * 40)
    # The driver separates -D from its value: two words become one flag and one that means nothing.
    recorded = f"-D\0INDEX={'x' * 40}".encode()
    flags = f"-fthinlto-index={index}\0-D".encode()
    data = target.read_bytes()
    assert data.count(recorded) == 1
    target.write_bytes(data.replace(recorded, flags.ljust(len(recorded), b"y")))
    objects = read_object_list(tmp_path / "build")
    with pytest.raises(CorpusError, match="ThinLTO index is missing"):
        extract_corpus(objects, output)
    assert not output.exists()
    (tmp_path / "build" / index).write_bytes(b"summary")
    (tmp_path / "build/lib/a").write_bytes(b"cut")
    assert extract_corpus(objects, output).modules == ["lib/x.o"]
    assert (output / "lib/x.o.thinlto.bc").read_bytes() == b"summary"
    assert read_description(output).has_thinlto
    assert f"-fthinlto-index={index}" in read_command(output / "lib/x.o.cmd")


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


def test_an_object_is_the_output_of_command_or_response_file_else_of_entry_else_of_source(tmp_path: Path) -> None:
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
    listed = read_object_list(database)
    assert [(entry.name, entry.path) for entry in listed.objects] == [(name, build / name) for _, name in entries]
    assert listed.skipped == []


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
        return [item.name for item in read_object_list(tmp_path / "compile_commands.json").objects]

    assert names(("one", "lib/x.o"), ("two", "lib/x.o"), ("one", "lib/y.o")) == [
        *("one/lib/x.o", "two/lib/x.o", "lib/y.o")
    ]
    renamed = names(("one", "x.o"), ("two", "x.o"), ("", "one/x.o/x.o"), (".", "two/x.o"))
    assert len(set(renamed)) == len(renamed)


def test_an_input_that_is_something_else_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "input"
    for content in ("{", "{}", "x", ""):
        source.write_text(content)
        with pytest.raises(CorpusError):
            read_object_list(source)
    source.unlink()
    with pytest.raises(CorpusError):
        read_object_list(source)


SOURCES = {
    "user.c": "int helper(int); int twice(int x) { return helper(x) + helper(x + 1); }\n",
    "lib/helper.c": "int helper(int x) { return (x * 7 + 3) ^ (x * 7 + 38); }\n",
}
OBJECTS = ["user.o", "lib/helper.o"]


def run(folder: Path, *command: str) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_the_default_policy_gives_the_text_of_the_build(tmp_path: Path, toolchain: Toolchain) -> None:
    folder = write_files(tmp_path / "build", SOURCES)
    for name in SOURCES:
        compile_only = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-flto=thin", "-c", name]
        run(folder, *toolchain.command, *compile_only, "-o", f"{name.removesuffix('.c')}.o")
    link = [*bundled_command("ld.lld"), "-m", "elf_x86_64", "-shared", "--thinlto-index-only"]
    run(folder, *link, *OBJECTS, "-o", "out.so")
    commands = []
    for name in OBJECTS:
        back_end = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-x", "ir", name, "-c"]
        index = [f"-fthinlto-index={name}.thinlto.bc", "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt"]
        arguments = [*toolchain.command, *back_end, *index, "-o", f"native/{name}"]
        (folder / "native" / name).parent.mkdir(parents=True, exist_ok=True)
        run(folder, *arguments)
        commands.append({"directory": str(folder), "file": name, "arguments": arguments})
    database = folder / "compile_commands.json"
    database.write_text(json.dumps(commands))
    report = extract_corpus(read_object_list(database), tmp_path / "distributed")
    assert report.modules == [f"native/{name}" for name in OBJECTS]
    corpus = open_corpus(tmp_path / "distributed", toolchain=toolchain)
    last = play(InlineEnv(corpus=corpus, clang="bundled"), module="native/user.o")[-1]
    (built,) = read_elf_sections(folder / "native" / "user.o", (".text",))
    assert (last.reward, last.terminated, last.info["text"]) == (0.0, True, len(built))
