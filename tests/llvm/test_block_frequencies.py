"""Block frequencies that clang writes, and maps written by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym import open_corpus
from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.block_frequencies import (
    FREQUENCY_FLAGS,
    FunctionBlocks,
    has_block_frequencies,
    map_sections,
    read_block_frequencies,
)
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.object_file import object_sizes, read_elf
from mlgo_gym.llvm.relocations import read_relocations
from mlgo_gym.llvm.symbol_table import read_symbol_table
from mlgo_gym.llvm.toolchain import Toolchain
from tests.llvm.maps import AARCH64, CODE, HIDDEN_MAP, X86_64, compiled, looping_map, with_maps

LOOP = "int sum(int *p, int n) { int s = 0; for (int i = 0; i < n; i++) s = s * 31 + p[i]; return s; }"


def blocks_of(data: bytes) -> list[FunctionBlocks]:
    elf = read_elf(data)
    table = read_symbol_table(elf)
    assert table is not None
    return list(read_block_frequencies(elf, read_relocations(table)))


def assembled(toolchain: Toolchain, folder: Path, *maps: str) -> bytes:
    return compiled(toolchain, folder, with_maps(CODE, *maps), suffix="s")


@pytest.mark.parametrize(("name", "level"), [("c/btree", "Oz"), ("cpp/small_string", "O2")])
def test_the_flags_leave_every_byte_of_code_unchanged(toolchain: Toolchain, name: str, level: str) -> None:
    module = open_corpus(f"builtin@{level}", toolchain=toolchain).module(name)
    objects = []
    for flags in ((), FREQUENCY_FLAGS):
        with plan(module, toolchain, flags).session() as session:
            objects.append(session.finish(60).object_bytes)
    plain, mapped = map(read_elf, objects)
    code = [[bytes(elf.contents(each)) for each in np.flatnonzero(elf.executable).tolist()] for elf in (plain, mapped)]
    assert code[0] == code[1]
    assert object_sizes(objects[0]).text == object_sizes(objects[1]).text > 0
    assert [has_block_frequencies(each) for each in objects] == [False, True]


@pytest.mark.parametrize("triple", [X86_64, AARCH64])
def test_blocks_fill_each_function_from_its_start_and_a_loop_runs_more_often(
    toolchain: Toolchain, tmp_path: Path, triple: str
) -> None:
    source = f"{LOOP} int twice(int *p, int n) {{ return sum(p, n) + sum(p, n / 2); }}"
    data = compiled(toolchain, tmp_path, source, "-Oz", "-fno-inline", triple=triple)
    functions = blocks_of(data)
    assert [function.blocks[0].offset for function in functions] == [function.start[1] for function in functions]
    sizes = [function.blocks[-1].offset + function.blocks[-1].size - function.start[1] for function in functions]
    assert sizes == [function_sizes(data).size(name) for name in ("sum", "twice")]
    entry, *others = functions[0].blocks
    assert max(block.frequency for block in others) > 10 * entry.frequency
    assert [block.is_exit for block in functions[0].blocks].count(True) == 1


def test_each_version_gives_the_same_blocks_and_counts(toolchain: Toolchain, tmp_path: Path) -> None:
    for version, features in ((2, 0x2), (3, 0x2), (3, 0x22), (4, 0x22), (5, 0x2), (5, 0x22)):
        data = assembled(toolchain, tmp_path, looping_map(version=version, features=features), HIDDEN_MAP)
        visible, hidden = blocks_of(data)
        assert [(block.offset, block.size, block.frequency) for block in visible.blocks] == [(0, 1, 8), (1, 8, 24)]
        assert [block.is_exit for block in visible.blocks] == [False, True]
        assert (hidden.start[1], hidden.blocks[0].size, hidden.blocks[0].frequency) == (9, 3, 7)
    data = assembled(toolchain, tmp_path, looping_map(features=0x3, count=300), HIDDEN_MAP)
    assert [function.entry_count for function in blocks_of(data)] == [300, 0]
    assert not has_block_frequencies(assembled(toolchain, tmp_path, ".byte 2, 0"))
    assert not has_block_frequencies(assembled(toolchain, tmp_path))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (looping_map(version=9), r"expected a block address map of version 2 to 5, got version 9; use the bundled"),
        (looping_map(features=0x6), r"expected a block address map with entry counts, .* got 0x6; compile with"),
        (".byte 2, 2\n .quad 0", r"expected a relocation for the function .*, got none at byte 2; use an object"),
        (looping_map().rpartition(".uleb128")[0], r"expected a complete block address map, got one that ends within"),
        (looping_map() + ".byte 2", r"expected a complete block address map, .* is damaged"),
        (looping_map().replace(".Lend-.Lloop", "4096"), r"expected the blocks .* within the 12 bytes of section"),
        (looping_map().replace("uleb128 8", "fill 12, 1, 0xff"), r"expected numbers of at most 64 bits"),
    ],
    ids=["version", "features", "not relocated", "cut off", "trailing byte", "too long", "number"],
)
def test_a_damaged_map_is_an_error_of_one_line(
    toolchain: Toolchain, tmp_path: Path, damaged: str, message: str
) -> None:
    with pytest.raises(MlgoError, match=message) as raised:
        blocks_of(assembled(toolchain, tmp_path, damaged))
    assert "\n" not in str(raised.value)


def test_every_cut_of_a_map_of_clang_is_an_error_or_fewer_functions(toolchain: Toolchain, tmp_path: Path) -> None:
    data = bytearray(compiled(toolchain, tmp_path, LOOP + LOOP.replace("sum", "other"), "-Oz"))
    elf = read_elf(bytes(data))
    (section,) = map_sections(elf)
    size = int(elf.sections["size"][section])
    (table,) = struct.unpack_from("<Q", data, 40)
    counts, errors = [], []
    for cut in range(size):
        struct.pack_into("<Q", data, table + 64 * section + 32, cut)
        try:
            counts.append(len(blocks_of(bytes(data))))
        except MlgoError as error:
            errors.append(str(error))
    assert counts == [0, 1]
    assert all(error.startswith("expected ") for error in errors)
