"""Block frequencies: how often clang expects each basic block of a function to run, read from an object.

With `FREQUENCY_FLAGS` clang writes a section `.llvm_bb_addr_map` (llvm/docs/Extensions.rst, `SHT_LLVM_BB_ADDR_MAP` and
its PGO analysis map). The code stays the same. With a profile the frequencies and the entry counts are measured ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mlgo_clang.object_size import WASM_MAGIC
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import ElfFile, Place, Relocation, read_elf
from mlgo_gym.llvm.wasm_file import ByteReader

FREQUENCY_FLAGS = ("-fbasic-block-address-map", "-mllvm", "-pgo-analysis-map=func-entry-count,bb-freq")
"""The `-cc1` arguments with which clang writes block frequencies and entry counts."""

OLDEST_CLANG = 20
"""Oldest clang with the first of `FREQUENCY_FLAGS`."""

_MAP_TYPE = 0x6FFF4C0A
_FEATURE_BYTES = {2: 1, 3: 1, 4: 1, 5: 2}
"""Bytes of the features by version of the map."""

_ENTRY_COUNTS, _FREQUENCIES, _CALL_SITES = 0x1, 0x2, 0x20
_HAS_RETURN = 0x1
_ADDRESS_BYTES = 8


class Block(NamedTuple):
    """A basic block.

    Attributes:
        offset: Offset in its section, in bytes.
        size: Bytes.
        frequency: Expected number of runs; only the ratio to the entry block of the function has a meaning.
        is_exit: Whether it ends with a return or a tail call, which may be conditional.
    """

    offset: int
    size: int
    frequency: int
    is_exit: bool


class FunctionBlocks(NamedTuple):
    """The blocks of a function.

    Attributes:
        start: Place of the function.
        blocks: Its blocks in the order of their offsets; the first is the entry.
        entry_count: Entries by the profile; 0 without one, or if the function did not run.
    """

    start: Place
    blocks: tuple[Block, ...]
    entry_count: int = 0


def has_block_frequencies(data: bytes) -> bool:
    """Return whether an object has block frequencies; WebAssembly has none. Raise `MlgoError` for a damaged one."""
    if data[:4] == WASM_MAGIC:
        return False
    elf = read_elf(data)
    # The features follow the version; their low byte is the first in every version.
    return any(len(raw) > 1 and raw[1] & _FREQUENCIES for raw in map(elf.contents, map_sections(elf)))


def map_sections(elf: ElfFile) -> list[int]:
    """Return the sections with maps of basic blocks."""
    return list(map(int, np.flatnonzero(elf.sections["type"] == _MAP_TYPE)))


def read_block_frequencies(elf: ElfFile, relocations: Mapping[int, Sequence[Relocation]]) -> Iterator[FunctionBlocks]:
    """Yield the blocks of each function of an object with 64 bits, little-endian, that is not linked.

    Raises:
        MlgoError: a map is damaged, or has a version or a feature that is not supported.
    """
    for section in map_sections(elf):
        starts = {relocation.offset: relocation.target for relocation in relocations.get(section, ())}
        data = bytes(elf.contents(section))
        reader = ByteReader(data, 0, len(data), "a block address map", 64)
        while reader.at < len(data):
            function = _read_function(reader, starts)
            _check_place(elf, function)
            yield function


def _read_function(reader: ByteReader, starts: Mapping[int, Place]) -> FunctionBlocks:
    """Read the map of one function; `starts` has the place of the function by the offset of its address."""
    version = reader.fixed(1)
    if version not in _FEATURE_BYTES:
        raise MlgoError(
            f"expected a block address map of version {min(_FEATURE_BYTES)} to {max(_FEATURE_BYTES)}, got version "
            f"{version}; use the bundled clang"
        )
    features = reader.fixed(_FEATURE_BYTES[version])
    if features & ~(_ENTRY_COUNTS | _CALL_SITES) != _FREQUENCIES:
        raise MlgoError(
            "expected a block address map with entry counts, frequencies and call sites (features 0x1, 0x2 and "
            f"0x20), got {features:#x}; compile with {' '.join(FREQUENCY_FLAGS)} and no other option of the map"
        )
    start = starts.get(reader.at)
    if start is None:
        raise MlgoError(
            f"expected a relocation for the function of a block address map, got none at byte {reader.at}; use an "
            "object that is not linked"
        )
    reader.fixed(_ADDRESS_BYTES)
    end = start[1]
    places = []
    for _ in range(reader.number()):
        reader.number()  # identity
        offset = end + reader.number()
        # A size counts from the end of the last call in the block.
        calls = sum([reader.number() for _ in range(reader.number())]) if features & _CALL_SITES else 0
        end = offset + calls + reader.number()
        is_exit = bool(reader.number() & _HAS_RETURN)
        places.append((offset, end - offset, is_exit))
    entry_count = reader.number() if features & _ENTRY_COUNTS else 0
    blocks = [Block(offset, size, reader.number(), is_exit) for offset, size, is_exit in places]
    return FunctionBlocks(start, tuple(blocks), entry_count)


def _check_place(elf: ElfFile, function: FunctionBlocks) -> None:
    section, start = function.start
    size = int(elf.sections["size"][section]) if 0 <= section < len(elf.sections) else 0
    end = function.blocks[-1].offset + function.blocks[-1].size if function.blocks else start
    if start < 0 or end > size or not function.blocks:
        raise MlgoError(
            f"expected the blocks of a function within the {size} bytes of section {section}, got bytes {start} to "
            f"{end}; the object is damaged"
        )
