"""Corpora from real objects; test names state LLVM's behaviour, or a defect of LLVM's tools."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.corpus.folder import CorpusReport, read_command, read_description
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus, read_elf_sections, read_with_objcopy
from mlgo_gym.corpus.recording.object_list import ObjectList, from_compile_commands, from_directory, from_local_thinlto
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.compressed_object import compressed_object

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
    assert "expected an ELF object file" in reasons["text.o"]
    assert "No such file" in reasons["none.o"]
    assert sorted(path.name for path in output.iterdir()) == ["corpus_description.json", "good.o.bc", "good.o.cmd"]
    shutil.rmtree(output)
    (tmp_path / "build/good.o").unlink()
    with pytest.raises(CorpusError, match=r"expected modules in 4 objects, got none.*skipped because"):
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
def test_llvm_objcopy_and_pyelftools_read_the_same(build: Build, extract: Extract) -> None:
    target = build("a.o", CODE)
    names = (".llvmcmd", ".llvmbc")
    assert read_with_objcopy("llvm-objcopy", target, names) == read_elf_sections(target, names)
    with pytest.raises(CorpusError, match="llvm-objcopy cannot read its sections"):
        read_with_objcopy("llvm-objcopy", target, (".nothing",))
    assert extract(llvm_objcopy="llvm-objcopy").modules == ["a.o"]


def test_a_compressed_section_is_unpacked_unless_it_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.o"
    path.write_bytes(compressed_object(1 << 20))
    assert read_elf_sections(path, (".llvmbc", ".llvmcmd")) == (bytes(1 << 20), b"-cc1\0")
    path.write_bytes(compressed_object(257 << 20))
    with pytest.raises(CorpusError, match=r"at most 268,435,456 bytes in \.llvmbc, got 269,484,032"):
        read_elf_sections(path, (".llvmbc",))


@given(position=st.integers(0, 1335), value=st.integers(0, 255), more=st.integers(0, 1335))
def test_a_damaged_object_raises_no_other_error(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, more: int
) -> None:
    data = bytearray(compressed_object(1 << 20))
    data[position % len(data)] = data[more % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.o"
    path.write_bytes(data)
    with suppress(CorpusError):
        read_elf_sections(path, (".llvmbc", ".llvmcmd"))
