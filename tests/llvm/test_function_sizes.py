"""The bytes of every function of ELF objects, against pyelftools."""

from __future__ import annotations

import io
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS
from tests.llvm.test_object_file import LEVELS
from tests.llvm.test_object_file import TRIPLES as OBJECT_TRIPLES

TRIPLES = {**OBJECT_TRIPLES, "32 bits with Thumb code": "thumbv7-unknown-linux-musleabihf"}
PLAIN = "x86_64-unknown-linux-musl"


def compile_text(toolchain: Toolchain, source: Path, *flags: str) -> bytes:
    path = source.parent / f"{source.stem}.o"
    result = toolchain.run([*flags, "-c", str(source), "-o", str(path)])
    assert result.returncode == 0, result.stderr
    return path.read_bytes()


@pytest.fixture(scope="module")
def objects(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], bytes]:
    source = tmp_path_factory.mktemp("functions") / "functions.c"
    source.write_bytes((PROGRAMS / "functions.c").read_bytes())
    return {
        (triple, level): compile_text(toolchain, source, f"--target={triple}", level, "-fPIC")
        for triple in TRIPLES.values()
        for level in LEVELS
    }


def oracle(data: bytes) -> dict[frozenset[str], int]:
    """The bytes of each place with a function symbol, and all names that it has."""
    elf = ELFFile(io.BytesIO(data))
    places: dict[tuple[int, int, int], set[str]] = {}
    table = elf.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] not in ("STT_FUNC", "STT_LOOS") or not isinstance(symbol["st_shndx"], int):
            continue
        if symbol["st_size"] and elf.get_section(symbol["st_shndx"])["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
            thumb = 1 if elf["e_machine"] == "EM_ARM" else 0
            place = symbol["st_shndx"], symbol["st_value"] & ~thumb, symbol["st_size"]
            places.setdefault(place, set()).add(symbol.name)
    return {frozenset(names): place[2] for place, names in places.items()}


def by_names(sizes: FunctionSizes) -> dict[frozenset[str], int]:
    groups = {name: {name} for name in sizes.functions}
    for alias, target in sizes.aliases.items():
        groups[target].add(alias)
    return {frozenset(names): sizes.functions[name] for name, names in groups.items()}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("triple", TRIPLES.values(), ids=TRIPLES.keys())
def test_sizes_agree_with_pyelftools(objects: dict[tuple[str, str], bytes], triple: str, level: str) -> None:
    data = objects[triple, level]
    sizes = function_sizes(data)
    assert by_names(sizes) == oracle(data)
    assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text == object_sizes(data).text
    assert {"elsewhere", "rarely", "aligned"} < set(sizes.functions)


@pytest.mark.parametrize("triple", TRIPLES.values(), ids=TRIPLES.keys())
def test_padding_and_assembly_without_sizes_are_nobodys(objects: dict[tuple[str, str], bytes], triple: str) -> None:
    # Alignment to 64 bytes leaves a gap, and the assembly has four bytes.
    assert function_sizes(objects[triple, "-Oz"]).unnamed >= 4


def test_a_function_of_several_names_counts_once(objects: dict[tuple[str, str], bytes]) -> None:
    sizes = function_sizes(objects[PLAIN, "-Oz"])
    assert sizes.aliases == {"original": "another_name", "third_name": "another_name"}
    assert sizes.size("original") == sizes.size("third_name") == sizes.functions["another_name"] > 0
    assert sizes.name("original") == "another_name"


def test_what_the_object_does_not_have_has_no_bytes(objects: dict[tuple[str, str], bytes]) -> None:
    sizes = function_sizes(objects[PLAIN, "-Oz"])
    assert sizes.name("nowhere") is None
    assert sizes.size("nowhere") == 0


def assembled(toolchain: Toolchain, folder: Path, text: str) -> FunctionSizes:
    source = folder / "text.s"
    source.write_text(text)
    return function_sizes(compile_text(toolchain, source, f"--target={PLAIN}"))


def function(name: str, count: int) -> str:
    return f".type {name},@function\n{name}:\n{'nop;' * count}\n.size {name}, .-{name}\n"


def test_parts_that_were_cut_off_have_entries_of_their_own(toolchain: Toolchain, tmp_path: Path) -> None:
    text = function("f", 5) + '.section .text.unlikely,"ax",@progbits\n' + function("f.cold", 3)
    assert assembled(toolchain, tmp_path, text).functions == {"f": 5, "f.cold": 3}


def test_functions_of_the_same_name_are_counted_together(toolchain: Toolchain, tmp_path: Path) -> None:
    halves = []
    for number, count in enumerate((3, 4)):
        source = tmp_path / f"half{number}.s"
        source.write_text(function("same", count) + f".globl other{number}\n" + function(f"other{number}", 1))
        compile_text(toolchain, source, f"--target={PLAIN}")
        halves.append(str(source.with_suffix(".o")))
    joined = tmp_path / "joined.o"
    linker = [toolchain.command[0], "ld.lld", "-r", *halves, "-o", str(joined)]
    result = subprocess.run(linker, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert function_sizes(joined.read_bytes()).functions == {"same": 7, "other0": 1, "other1": 1}


def test_bytes_of_two_functions_belong_to_the_one_that_begins_first(toolchain: Toolchain, tmp_path: Path) -> None:
    text = """
        .type outer,@function
        .type entry,@function
        outer: nop; nop; nop
        entry: nop; nop
        .size outer, .-outer
        nop
        .size entry, .-entry
    """
    sizes = assembled(toolchain, tmp_path, text)
    assert sizes.functions == {"outer": 5, "entry": 1}
    assert (sizes.unnamed, sizes.text) == (0, 6)


def test_functions_in_more_sections_than_a_symbol_can_name_are_all_found(toolchain: Toolchain, tmp_path: Path) -> None:
    count = 66_000
    sections = (f'.section .text.f{n},"ax",@progbits\n{function(f"f{n}", 1)}' for n in range(count))
    assert assembled(toolchain, tmp_path, "".join(sections)).functions == {f"f{n}": 1 for n in range(count)}


def test_an_object_without_code_has_no_functions(toolchain: Toolchain, tmp_path: Path) -> None:
    sizes = assembled(toolchain, tmp_path, ".data\n.byte 1\n")
    assert sizes == FunctionSizes({}, {}, 0, 0)


def test_a_stripped_object_is_refused(objects: dict[tuple[str, str], bytes]) -> None:
    stripped = bytearray(objects[PLAIN, "-Oz"])
    elf = ELFFile(io.BytesIO(bytes(stripped)))
    number = elf.get_section_index(".symtab")
    # Without its type a section is not there.
    struct.pack_into("<I", stripped, elf["e_shoff"] + number * elf["e_shentsize"] + 4, 0)
    with pytest.raises(MlgoError, match="got a stripped one"):
        function_sizes(bytes(stripped))


@pytest.mark.parametrize(("field", "value"), [(56, 23), (32, 25)], ids=["entries", "size"])
def test_a_table_of_symbols_that_does_not_come_out_even_is_refused(
    objects: dict[tuple[str, str], bytes], field: int, value: int
) -> None:
    data = bytearray(objects[PLAIN, LEVELS[0]])
    start, width, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    headers = [start + width * number for number in range(count)]
    symbols = next(at for at in headers if struct.unpack_from("<I", data, at + 4)[0] == 2)
    struct.pack_into("<Q", data, symbols + field, value)
    with pytest.raises(MlgoError, match="expected a table with entries of 24 bytes"):
        function_sizes(bytes(data))


@given(st.data())
def test_damage_is_measured_or_refused_but_never_anything_else(
    objects: dict[tuple[str, str], bytes], data: st.DataObject
) -> None:
    triple = data.draw(st.sampled_from(sorted(TRIPLES.values())))
    damaged = bytearray(objects[triple, "-Oz"])
    place = data.draw(st.integers(4, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    try:
        sizes = function_sizes(bytes(damaged))
    except MlgoError:
        return
    assert all(size >= 0 for size in sizes.functions.values())
