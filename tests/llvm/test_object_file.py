"""Sections and functions of ELF objects, against pyelftools, and of WebAssembly files. Fuzzing damages them."""

import io
import shutil
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlgo_clang.object_size import object_size, wasm_sections
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import read_wasm
from mlgo_gym.llvm.sizes import FunctionSizes, ObjectSizes, function_sizes, object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS

PLAIN = "x86_64-unknown-linux-musl"
# 64 and 32 bits, both byte orders, and Thumb code
TRIPLES = (PLAIN, "s390x-unknown-linux-musl", "powerpc-unknown-linux-musl", "thumbv7-unknown-linux-musleabihf")
LEVELS = ["-Oz", "-g", "-ffunction-sections"]
Objects = dict[tuple[str, str, str], bytes]


def compile_text(toolchain: Toolchain, source: Path, *flags: str) -> bytes:
    path = source.parent / f"{source.stem}.o"
    result = toolchain.run([*flags, "-c", str(source), "-o", str(path)])
    assert result.returncode == 0, result.stderr
    return path.read_bytes()


@pytest.fixture(scope="module")
def objects(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The objects of two programs by program, target and flag."""
    compiled = {}
    for program in ("sections", "functions"):
        source = tmp_path_factory.mktemp("objects") / f"{program}.c"
        shutil.copy(PROGRAMS / source.name, source)
        for triple in TRIPLES:
            for level in LEVELS:
                data = compile_text(toolchain, source, f"--target={triple}", level, "-fPIC")
                compiled[program, triple, level] = data
    return compiled


def sections(data: bytes) -> ObjectSizes:
    text = read_only = loaded = 0
    for section in ELFFile(io.BytesIO(data)).iter_sections():
        flags, size = section["sh_flags"], section["sh_size"]
        executable = bool(flags & SH_FLAGS.SHF_EXECINSTR)
        text += size if executable else 0
        if flags & SH_FLAGS.SHF_ALLOC and section["sh_type"] != "SHT_NOBITS":
            loaded += size
            read_only += size if executable or not flags & SH_FLAGS.SHF_WRITE else 0
    return ObjectSizes(text, read_only, loaded, len(data))


def functions(data: bytes) -> dict[frozenset[str], int]:
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


@pytest.mark.parametrize("triple", TRIPLES)
def test_sizes_agree_with_pyelftools(objects: Objects, triple: str) -> None:
    for level in LEVELS:
        data = objects["sections", triple, level]
        measured = object_sizes(data)
        assert measured == sections(data)
        assert 0 < object_size(data) == measured.text < measured.llvm_size
        assert measured.llvm_size <= object_size(data, "loaded") == measured.loaded < measured.object
        data = objects["functions", triple, level]
        sizes = function_sizes(data)
        assert by_names(sizes) == functions(data)
        assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text == object_sizes(data).text
        assert {"elsewhere", "rarely", "aligned"} < set(sizes.functions)
        # Alignment to 64 bytes leaves a gap, and the assembly without a size has four bytes.
        assert sizes.unnamed >= 4
        # A function of several names counts once.
        assert sizes.aliases == {"original": "another_name", "third_name": "another_name"}
        assert (sizes.name("original"), sizes.name("nowhere")) == ("another_name", None)
        assert sizes.functions["another_name"] > 0


def assembled(toolchain: Toolchain, folder: Path, text: str) -> FunctionSizes:
    source = folder / "text.s"
    source.write_text(text)
    return function_sizes(compile_text(toolchain, source, f"--target={PLAIN}"))


def function(name: str, count: int) -> str:
    return f".type {name},@function\n{name}:\n{'nop;' * count}\n.size {name}, .-{name}\n"


def test_split_off_parts_have_entries_and_shared_bytes_are_of_the_first(toolchain: Toolchain, tmp_path: Path) -> None:
    text = function("f", 5) + '.section .text.unlikely,"ax",@progbits\n' + function("f.cold", 3)
    assert assembled(toolchain, tmp_path, text).functions == {"f": 5, "f.cold": 3}
    text = ".type outer,@function\n.type entry,@function\nouter: nop; nop; nop\nentry: nop; nop\n"
    sizes = assembled(toolchain, tmp_path, f"{text}.size outer, .-outer\nnop\n.size entry, .-entry\n")
    assert (sizes.functions, sizes.unnamed, sizes.text) == ({"outer": 5, "entry": 1}, 0, 6)
    assert assembled(toolchain, tmp_path, ".data\n.byte 1\n") == FunctionSizes({}, {}, 0, 0)


def test_another_or_incomplete_file_is_refused(objects: Objects) -> None:
    for other in (b"", b"\x7fELF", b"BC\xc0\xde" + bytes(100), b"\xfe\xed\xfa\xcf" + bytes(100)):
        for measure in (object_sizes, object_size):
            with pytest.raises(MlgoError, match="expected an ELF object, got"):
                measure(other)
    for triple in TRIPLES:
        data = objects["sections", triple, "-Oz"]
        for length in range(0, len(data), 29):
            with pytest.raises(MlgoError, match="ELF"):
                object_sizes(data[:length])


SOURCE = """
extern int elsewhere(int);
extern int table[];
static int helper(int x) { return table[x] * elsewhere(x); }
__attribute__((noinline)) int first(int x) { return helper(x) + 1; }
int second(int x) { return first(x) + first(x + 1) + helper(x); }
int third(int) __attribute__((alias("second")));
int data = 7;
"""


def test_of_webassembly_the_functions_and_the_rest_are_the_code_section(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "source.c"
    source.write_text(SOURCE)
    data = compile_text(toolchain, source, "--target=wasm32-unknown-wasip1", "-g")
    sizes = function_sizes(data)
    assert set(sizes.functions) >= {"first", "second"}
    assert sizes.aliases == {"third": "second"}
    assert sizes.functions["second"] > sizes.functions["first"] > 0
    assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text == object_sizes(data).text
    assert sizes.unnamed <= 5  # the number of functions
    assert object_sizes(data).object == len(data)
    assert object_size(data) == object_sizes(data).text
    ends = {8, *(end for *_, end in wasm_sections(data))}
    for damaged in (*(data[:length] for length in range(8, len(data)) if length not in ends), data + b"\x0a\xff"):
        with pytest.raises(MlgoError, match="is cut off"):
            object_size(damaged)
    with pytest.raises(MlgoError, match=r"expected a WebAssembly file, got 8 bytes that begin with b'.*ELF'"):
        read_wasm(b"\x7fELF\2\1\1\0")
    with pytest.raises(MlgoError, match="got a stripped one"):
        function_sizes(data.replace(b"\x07linking", b"\x07nothing").replace(b"\x04name", b"\x04nome"))
