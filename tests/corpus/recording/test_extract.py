"""CorpusReport from real objects; test names state LLVM's behaviour, or a defect of LLVM's tools."""

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

from mlgo_gym.corpus.modules.description import (
    CorpusReport,
    read_command,
    read_description,
)
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus, read_elf_sections, read_with_objcopy
from mlgo_gym.corpus.recording.object_list import ObjectList, from_compile_commands, from_directory, from_local_thinlto
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.compressed_object import compressed_object

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path, toolchain: Toolchain) -> Build:
    """Return a function that compiles a source to `build/NAME` with embedded bitcode."""

    def compile_one(name: str, source: str = "int x;", *flags: str, embed: bool = True) -> Path:
        path = tmp_path / "source.c"
        path.write_text(source)
        target = tmp_path / "build" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        embedding = ["-Xclang", "-fembed-bitcode=all"] if embed else []
        result = toolchain.run(
            ["--target=x86_64-unknown-linux-musl", *embedding, "-Oz", *flags, "-c", str(path), "-o", str(target)]
        )
        assert result.returncode == 0, result.stderr
        return target

    return compile_one


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


def extract_folder(tmp_path: Path, output: Path, **options: object) -> CorpusReport:
    return extract_corpus(from_directory(tmp_path / "build"), output, **options)  # type: ignore[arg-type]


def test_a_module_has_the_bitcode_and_the_flags_of_its_object(build: Build, tmp_path: Path, output: Path) -> None:
    build("lib/x.o", "int f(int x) { return x + 1; }")
    assert extract_folder(tmp_path, output).modules == ["lib/x.o"]
    assert read_bitcode(output / "lib/x.o.bc").minsize == 1
    flags = read_command(output / "lib/x.o.cmd")
    assert flags[0] == "-cc1"
    assert {"-Oz", "-emit-obj"} <= set(flags)
    assert not {"-o", "-x"} & set(flags)
    assert read_description(output).modules == ("lib/x.o",)
    assert not read_description(output).has_thinlto


def test_the_extracted_corpus_compiles_to_the_text_of_its_objects(
    build: Build, tmp_path: Path, output: Path, toolchain: Toolchain
) -> None:
    target = build("x.o", "static int f(int x) { return x * 3; }\nint g(int x) { return f(x) + f(x + 1); }")
    extract_folder(tmp_path, output)
    module = open_corpus(output, toolchain=toolchain)[0]
    assert verify(open_corpus(output, toolchain=toolchain), toolchain) == []
    again = tmp_path / "again.o"
    result = toolchain.run([*(module.flags or ()), "-x", "ir", str(module.bitcode), "-o", str(again)])
    assert result.returncode == 0, result.stderr
    assert read_elf_sections(again, (".text",)) == read_elf_sections(target, (".text",))


def test_objects_that_fail_are_skipped_and_named(build: Build, tmp_path: Path, output: Path) -> None:
    build("good.o")
    build("plain.o", embed=False)
    (tmp_path / "build" / "text.o").write_text("no object")
    commands = [
        {"directory": str(tmp_path / "build"), "command": f"cc -o {name}.o"}
        for name in ("good", "plain", "text", "none")
    ]
    report = extract_corpus(from_compile_commands(commands), output)
    assert report.modules == ["good.o"]
    reasons = dict(report.skipped)
    assert set(reasons) == {"plain.o", "text.o", "none.o"}
    assert "expected a section .llvmcmd" in reasons["plain.o"]
    assert "expected an ELF object file" in reasons["text.o"]
    assert "No such file" in reasons["none.o"]


def test_sections_can_have_other_names(build: Build, tmp_path: Path, output: Path) -> None:
    target = build("a.o")
    data = target.read_bytes()
    target.write_bytes(data.replace(b".llvmcmd", b".mycommd").replace(b".llvmbc", b".mybitc"))
    report = extract_folder(tmp_path, output, cmd_section=".mycommd", bitcode_section=".mybitc")
    assert report.modules == ["a.o"]


def test_defect_bytes_that_are_no_text_do_not_end_the_run(build: Build, tmp_path: Path, output: Path) -> None:
    build("a.o")
    target = build("b.o", "int x;", "-DNAME=some-long-name")
    target.write_bytes(target.read_bytes().replace(b"some-long-name", b"some\xff\nong-nam\xe9"))
    report = extract_folder(tmp_path, output, cmd_filter="-Oz")
    assert report.modules == ["a.o", "b.o"]
    assert b"NAME=some\xff\nong-nam\xe9" in (output / "b.o.cmd").read_bytes()
    assert read_command(output / "b.o.cmd")[0] == "-cc1"


def test_defect_a_failed_bitcode_dump_leaves_no_command(build: Build, tmp_path: Path, output: Path) -> None:
    build("a.o")
    target = build("b.o")
    target.write_bytes(target.read_bytes().replace(b".llvmbc", b".noneXX"))
    report = extract_folder(tmp_path, output)
    assert [name for name, _ in report.skipped] == ["b.o"]
    assert sorted(path.name for path in output.iterdir()) == ["a.o.bc", "a.o.cmd", "corpus_description.json"]


def test_nothing_extracted_writes_no_corpus(build: Build, tmp_path: Path, output: Path) -> None:
    build("plain.o", embed=False)
    with pytest.raises(CorpusError, match=r"expected modules in 1 objects, got none.*skipped because"):
        extract_folder(tmp_path, output)
    assert not output.exists()


def test_an_interrupted_extraction_is_finished_by_the_next(build: Build, tmp_path: Path, output: Path) -> None:
    for name in ("a.o", "b.o", "c.o"):
        build(name)
    objects = from_directory(tmp_path / "build")
    steps = iter(range(2))

    def stop() -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_corpus(objects, output, jobs=1, progress=stop)
    assert not (output / "corpus_description.json").exists()
    first = (output / "a.o.bc").stat()
    report = extract_corpus(objects, output, jobs=1)
    assert report.modules == ["a.o", "b.o", "c.o"]
    assert (output / "a.o.bc").stat().st_ino == first.st_ino


def test_a_rebuilt_object_is_extracted_again(build: Build, tmp_path: Path, output: Path) -> None:
    build("a.o")
    extract_folder(tmp_path, output)
    os.utime(build("a.o", "int f(void) { return 1; }"), ns=(1, 1))
    extract_folder(tmp_path, output)
    assert read_bitcode(output / "a.o.bc").functions == 1


def thinlto_objects(build: Build, tmp_path: Path, index: str) -> ObjectList:
    """Build an object whose recorded flags name a ThinLTO index; the bytes of the section are all that is looked at."""
    placeholder = "-DINDEX=" + "x" * 40
    flag = f"-fthinlto-index={index}"
    assert len(flag) <= len(placeholder) - 1
    target = build("lib/x.o", "int x;", placeholder)
    # The driver separates -D from its value: two words become one flag and one that means nothing.
    recorded = f"-D\0INDEX={'x' * 40}".encode()
    padding = f"{flag}\0-D".encode()
    padding += b"y" * (len(recorded) - len(padding))
    data = target.read_bytes()
    assert data.count(recorded) == 1
    target.write_bytes(data.replace(recorded, padding))
    return from_directory(tmp_path / "build")


def test_distributed_thinlto_copies_the_index_that_the_flags_name(build: Build, tmp_path: Path, output: Path) -> None:
    objects = thinlto_objects(build, tmp_path, "lib/x.thinlto.bc")
    (tmp_path / "build/lib/x.thinlto.bc").write_bytes(b"summary")
    assert extract_corpus(objects, output, thinlto_build="distributed").modules == ["lib/x.o"]
    assert (output / "lib/x.o.thinlto.bc").read_bytes() == b"summary"
    assert read_description(output).has_thinlto
    assert "-fthinlto-index=lib/x.thinlto.bc" in read_command(output / "lib/x.o.cmd")


def test_defect_an_index_with_an_equals_sign_in_its_name_is_not_cut(build: Build, tmp_path: Path, output: Path) -> None:
    objects = thinlto_objects(build, tmp_path, "lib/a=b.bc")
    (tmp_path / "build/lib/a=b.bc").write_bytes(b"whole")
    (tmp_path / "build/lib/a").write_bytes(b"cut")
    extract_corpus(objects, output, thinlto_build="distributed")
    assert (output / "lib/x.o.thinlto.bc").read_bytes() == b"whole"


def test_defect_a_missing_thinlto_index_skips_the_module(build: Build, tmp_path: Path, output: Path) -> None:
    objects = thinlto_objects(build, tmp_path, "lib/x.thinlto.bc")
    with pytest.raises(CorpusError, match="ThinLTO index is missing"):
        extract_corpus(objects, output, thinlto_build="distributed")
    assert not output.exists()


def test_an_object_without_an_index_is_not_of_a_distributed_thinlto_build(
    build: Build, tmp_path: Path, output: Path
) -> None:
    build("x.o")
    with pytest.raises(CorpusError, match="expected -fthinlto-index="):
        extract_folder(tmp_path, output, thinlto_build="distributed")


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


@pytest.mark.parametrize("options", [{"thinlto_build": "full"}, {"thinlto_build": "local", "cmd_filter": "x"}])
def test_impossible_options_are_errors(tmp_path: Path, output: Path, options: dict[str, str]) -> None:
    (tmp_path / "build").mkdir()
    with pytest.raises(CorpusError):
        extract_folder(tmp_path, output, **options)


@pytest.mark.skipif(shutil.which("llvm-objcopy") is None, reason="llvm-objcopy is not installed")
def test_llvm_objcopy_and_pyelftools_read_the_same(build: Build, tmp_path: Path, output: Path) -> None:
    target = build("a.o", "int f(int x) { return x; }")
    names = (".llvmcmd", ".llvmbc")
    assert read_with_objcopy("llvm-objcopy", target, names) == read_elf_sections(target, names)
    with pytest.raises(CorpusError, match="llvm-objcopy cannot read its sections"):
        read_with_objcopy("llvm-objcopy", target, (".nothing",))
    assert extract_folder(tmp_path, output, llvm_objcopy="llvm-objcopy").modules == ["a.o"]


def test_a_truncated_object_is_skipped(build: Build, tmp_path: Path, output: Path) -> None:
    build("a.o")
    target = build("b.o")
    data = bytearray(target.read_bytes())
    struct.pack_into("<Q", data, 0x28, len(data) + 1000)
    target.write_bytes(data)
    report = extract_folder(tmp_path, output)
    assert report.modules == ["a.o"]
    assert [name for name, _ in report.skipped] == ["b.o"]


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
