"""Section sizes of ELF objects, against pyelftools and llvm-size."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import ObjectSizes, object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS

TRIPLES = {
    "64 bits little-endian": "x86_64-unknown-linux-musl",
    "64 bits little-endian of Arm": "aarch64-unknown-linux-musl",
    "32 bits little-endian": "i386-unknown-linux-musl",
    "64 bits big-endian": "s390x-unknown-linux-musl",
    "32 bits big-endian": "powerpc-unknown-linux-musl",
}
LEVELS = ["-O0", "-Oz", "-O3", "-g", "-ffunction-sections"]


@pytest.fixture(scope="module")
def compile_object(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], bytes]:
    objects = {}
    folder = tmp_path_factory.mktemp("objects")
    for triple in TRIPLES.values():
        for level in LEVELS:
            path = folder / f"{triple}{level}.o"
            source = str(PROGRAMS / "sections.c")
            result = toolchain.run([f"--target={triple}", level, "-fPIC", "-c", source, "-o", str(path)])
            assert result.returncode == 0, result.stderr
            objects[triple, level] = path.read_bytes()
    return objects


def oracle(data: bytes) -> ObjectSizes:
    text = read_only = 0
    for section in ELFFile(io.BytesIO(data)).iter_sections():
        flags, size = section["sh_flags"], section["sh_size"]
        executable = bool(flags & SH_FLAGS.SHF_EXECINSTR)
        text += size if executable else 0
        constant = executable or not flags & SH_FLAGS.SHF_WRITE
        if flags & SH_FLAGS.SHF_ALLOC and constant and section["sh_type"] != "SHT_NOBITS":
            read_only += size
    return ObjectSizes(text, read_only, len(data))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("triple", TRIPLES.values(), ids=TRIPLES.keys())
def test_sizes_agree_with_pyelftools(compile_object: dict[tuple[str, str], bytes], triple: str, level: str) -> None:
    data = compile_object[triple, level]
    sizes = object_sizes(data)
    assert sizes == oracle(data)
    assert 0 < sizes.text < sizes.llvm_size < sizes.object


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("triple", TRIPLES.values(), ids=TRIPLES.keys())
def test_the_first_column_of_llvm_size_is_ours(
    compile_object: dict[tuple[str, str], bytes], triple: str, level: str, tmp_path: Path
) -> None:
    program = next(filter(None, map(shutil.which, ("llvm-size", "llvm-size-22", "llvm-size-19"))), None)
    if program is None:
        pytest.skip("llvm-size is not installed")
    data = compile_object[triple, level]
    path = tmp_path / "object.o"
    path.write_bytes(data)
    table = subprocess.check_output([program, "--format=berkeley", str(path)], text=True)
    assert object_sizes(data).llvm_size == int(table.splitlines()[1].split()[0])


def test_more_sections_than_the_header_can_count_are_all_measured(toolchain: Toolchain, tmp_path: Path) -> None:
    source, path = tmp_path / "many.s", tmp_path / "many.o"
    count = 66_000
    source.write_text("".join(f'.section .text.f{n},"ax",@progbits\n.byte 0x90\n' for n in range(count)))
    result = toolchain.run(["--target=x86_64-unknown-linux-musl", "-c", str(source), "-o", str(path)])
    assert result.returncode == 0, result.stderr
    data = path.read_bytes()
    assert struct.unpack_from("<H", data, 60) == (0,)
    assert object_sizes(data).text == count


def test_an_object_that_is_cut_off_is_refused_wherever_it_is_cut(compile_object: dict[tuple[str, str], bytes]) -> None:
    for triple in TRIPLES.values():
        data = compile_object[triple, "-Oz"]
        for length in range(0, len(data), 7):
            with pytest.raises(MlgoError, match="ELF"):
                object_sizes(data[:length])


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"BC\xc0\xde" + bytes(100), b"\xfe\xed\xfa\xcf" + bytes(100)])
def test_what_is_no_elf_file_is_refused_by_its_first_bytes(data: bytes) -> None:
    with pytest.raises(MlgoError, match="expected an ELF object, got"):
        object_sizes(data)


@given(st.data())
def test_damage_is_measured_or_refused_but_never_anything_else(
    compile_object: dict[tuple[str, str], bytes], data: st.DataObject
) -> None:
    triple = data.draw(st.sampled_from(sorted(TRIPLES.values())))
    damaged = bytearray(compile_object[triple, "-Oz"])
    # The part of the header that says where the table lies, how long it is, and how many bits there are.
    place = data.draw(st.integers(4, 63))
    damaged[place] = data.draw(st.integers(0, 255))
    try:
        sizes = object_sizes(bytes(damaged))
    except MlgoError:
        return
    assert sizes.object == len(damaged)
