"""Reads LLVM bitcode without LLVM: target, producer, number of functions, and their attributes.

The container is that of LLVM's BitCodeFormat document and of llvm/include/llvm/Bitstream/BitCodes.h; block, record and
attribute numbers are those of llvm/include/llvm/Bitcode/LLVMBitCodes.h. Function bodies, types, constants and metadata
are skipped by their length.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_gym.errors import CorpusError

_MAGIC = b"BC\xc0\xde"
_WRAPPER = b"\xde\xc0\x17\x0b"
_END_BLOCK, _ENTER_BLOCK, _DEFINE_ABBREVIATION, _UNABBREVIATED = 0, 1, 2, 3
_BLOCK_INFO, _SET_BLOCK = 0, 1
_LITERAL, _FIXED, _VBR, _ARRAY, _CHAR6, _BLOB = 0, 1, 2, 3, 4, 5
_DEEPEST = 16
_WIDEST = 32  # MaxChunkSize in llvm/include/llvm/Bitstream/BitCodes.h
_CHAR6_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

_MODULE, _PARAMETER_ATTRIBUTES, _ATTRIBUTE_GROUPS, _IDENTIFICATION, _STRING_TABLE = 8, 9, 10, 13, 23
_MODULE_VERSION, _TRIPLE, _FUNCTION, _SOURCE_FILENAME = 1, 2, 8, 16
_FUNCTION_INDEX = 0xFFFFFFFF
_MIN_SIZE, _OPTIMIZE_FOR_SIZE, _OPTIMIZE_NONE = 6, 19, 37

_INTERESTING = frozenset({_MODULE, _PARAMETER_ATTRIBUTES, _ATTRIBUTE_GROUPS, _IDENTIFICATION, _STRING_TABLE})

_Operand = tuple[int, int]
_Abbreviation = list[_Operand]

_LANGUAGES = {
    **dict.fromkeys(("C", "cc", "cpp", "cxx", "c++"), "C++"),
    **dict.fromkeys(("f", "f90", "F90"), "Fortran"),
    "c": "C",
    "d": "D",
    "jl": "Julia",
    "m": "Objective-C",
    "mm": "Objective-C++",
    "rs": "Rust",
    "swift": "Swift",
    "zig": "Zig",
}


@dataclass(frozen=True, slots=True)
class BitcodeFacts:
    """Facts that a bitcode file states.

    Attributes:
        triple: the target, such as `x86_64-unknown-linux-musl`; empty if it names none.
        producer: the LLVM that wrote it, such as `LLVM22.1.8`.
        source_filename: the name of the source that the compiler was given.
        functions: the number of functions with a body.
        minsize, optsize, optnone: how many of them have the attribute: of -Oz; of -Os and -Oz; of -O0.
        language: the source language, guessed from `source_filename`, the producer and the names; empty if unknown.
    """

    triple: str
    producer: str
    source_filename: str
    functions: int
    minsize: int
    optsize: int
    optnone: int
    language: str

    @property
    def level(self) -> str:
        """The optimisation level that all functions show: `Oz`, `Os`, `O0`, `O1-O3`, `mixed` or `no functions`."""
        if not self.functions:
            return "no functions"
        for level, number in (("Oz", self.minsize), ("Os", self.optsize), ("O0", self.optnone)):
            if number == self.functions:
                return level
        return "mixed" if self.minsize or self.optsize or self.optnone else "O1-O3"

    @property
    def prevailing_level(self) -> str:
        """The level of most functions: `Oz`, `Os`, `O0`, `O1-O3` or `no functions`; single ones may have attributes."""
        if not self.functions:
            return "no functions"
        others = self.functions - self.optsize - self.optnone
        counts = {"Oz": self.minsize, "Os": self.optsize - self.minsize, "O0": self.optnone, "O1-O3": others}
        return max(counts, key=lambda level: counts[level])


def read_bitcode(path: str | os.PathLike[str]) -> BitcodeFacts:
    """Return the facts of a bitcode file, wrapped or not; of several modules in one file, the first.

    Raises `CorpusError` if the file cannot be read, or is not whole LLVM bitcode; the text contains its path.
    """
    try:
        with Path(path).open("rb") as file:
            if not file.read(1):
                raise CorpusError(f"{path}: expected LLVM bitcode, got an empty file; make the module again")
            # The file may be large and not bitcode: mapping it reads only the pages that are used.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse_bitcode(data, path)
    except OSError as error:
        raise CorpusError(f"{path}: expected LLVM bitcode, and the file cannot be read: {error}") from error


def parse_bitcode(data: bytes | mmap.mmap, origin: str | os.PathLike[str]) -> BitcodeFacts:
    """Return the facts of bitcode in memory, or raise `CorpusError` with its origin."""
    reader = _Reader()
    try:
        reader.read(_unwrapped(data))
        return reader.facts()
    except (ValueError, IndexError) as error:
        raise CorpusError(f"{origin}: expected LLVM bitcode: {error}; make the module again") from error


@dataclass(frozen=True, slots=True)
class _Record:
    """One record: its code, its values, and the bytes of its blob, if any."""

    code: int
    values: list[int]
    blob: bytes = b""


@dataclass(slots=True)
class _Reader:
    groups: dict[int, set[int]] = field(default_factory=dict)
    lists: list[list[int]] = field(default_factory=list)
    functions: list[_Record] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    version: int = 0
    producer: str = ""
    strings: bytes = b""
    modules: int = 0

    def read(self, data: bytes | mmap.mmap) -> None:
        for block, record in _Stream(data).blocks():
            if record is None:
                if block == _MODULE:
                    self.modules += 1
                    if self.modules > 1:
                        break
            elif block == _IDENTIFICATION and record.code == 1:
                self.producer = self.producer or _text(record.values)
            elif block == _ATTRIBUTE_GROUPS and record.code == 3 and record.values[1] == _FUNCTION_INDEX:
                self.groups[record.values[0]] = _enum_attributes(record.values[2:])
            elif block == _PARAMETER_ATTRIBUTES and record.code == 2:
                self.lists.append(record.values)
            elif block == _STRING_TABLE and record.code == 1:
                self.strings = self.strings or record.blob
            elif block == _MODULE and record.code == _MODULE_VERSION:
                self.version = record.values[0]
            elif block == _MODULE and record.code == _FUNCTION:
                self.functions.append(record)
            elif block == _MODULE and record.code in (_TRIPLE, _SOURCE_FILENAME):
                self.texts[record.code] = _text(record.values)
        if not self.modules:
            raise ValueError("it holds no module")

    def facts(self) -> BitcodeFacts:
        # From version 2 on, a name's offset and length in the string table come before the other fields.
        first = 2 if self.version >= 2 else 0
        defined = [record.values for record in self.functions if not record.values[first + 2]]
        counts: Counter[int] = Counter()
        for values in defined:
            if attributes := values[first + 4]:
                counts.update(set().union(*(self.groups.get(group, ()) for group in self.lists[attributes - 1])))
        source = self.texts.get(_SOURCE_FILENAME, "")
        names = [self.strings[values[0] : values[0] + values[1]] for values in defined] if first else []
        return BitcodeFacts(
            self.texts.get(_TRIPLE, ""),
            self.producer,
            source,
            len(defined),
            counts[_MIN_SIZE],
            counts[_OPTIMIZE_FOR_SIZE],
            counts[_OPTIMIZE_NONE],
            _language(source, self.producer, names),
        )


def _enum_attributes(values: list[int]) -> set[int]:
    attributes: set[int] = set()
    position = 0
    while position < len(values):
        form, key = values[position], values[position + 1]
        if form in (0, 1):  # an attribute without, or with a number
            attributes.add(key)
            position += 2 + form
        elif form in (3, 4):  # a string, or two, each ended by 0
            position = values.index(0, position) + 1
            if form == 4:
                position = values.index(0, position) + 1
        elif form in (5, 6):  # an attribute without, or with a type
            position += 2 + (form == 6)
        else:
            raise ValueError(f"attribute of the unknown form {form}")
    return attributes


def _text(values: list[int]) -> str:
    return bytes(value & 0xFF for value in values).decode(errors="replace")


def _language(source: str, producer: str, names: list[bytes]) -> str:
    if "rust" in producer or ("-cgu." in source and "." in source):
        return "Rust"
    suffix = source.rpartition(".")[2] if "." in source else ""
    if suffix in _LANGUAGES:
        return _LANGUAGES[suffix]
    if any(name.startswith(b"_R") for name in names):
        return "Rust"
    if any(name.startswith((b"$s", b"_$s")) for name in names):
        return "Swift"
    return "C++" if any(name.startswith(b"_Z") for name in names) else ""


def _unwrapped(data: bytes | mmap.mmap) -> bytes | mmap.mmap:
    """Return a bitstream without LLVM's wrapper; raise `ValueError` for other data."""
    if data[:4] == _WRAPPER:
        if len(data) < 20:
            raise ValueError("the wrapper is cut off")
        offset, size = struct.unpack_from("<II", data, 8)
        if offset + size > len(data):
            raise ValueError(f"the wrapper names {offset + size} bytes, and there are {len(data)}")
        data = data[offset : offset + size]
    if data[:4] != _MAGIC:
        raise ValueError(f"the magic number 'BC' 0xC0DE is missing, found {data[:4].hex(' ') or 'nothing'}")
    return data


class _Stream:
    """Yields the records of a bitstream in order, each with the kind of its block; None where a block begins."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._position = 32
        self._end = len(data) * 8
        self._inherited: dict[int, list[_Abbreviation]] = {}
        self._depth = 0
        # Values that an abbreviation gives for no bits: as many as there are bits are more than any writer needs.
        self._free = self._end

    def blocks(self) -> Iterator[tuple[int, _Record | None]]:
        while self._end - self._position >= 32:
            if self._fixed(2) != _ENTER_BLOCK:
                raise ValueError(f"expected a block at byte {self._position // 8}")
            yield from self._enter()

    def _enter(self) -> Iterator[tuple[int, _Record | None]]:
        block = self._vbr(8)
        width = self._vbr(4)
        if width > _WIDEST:
            raise ValueError(f"abbreviations have at most {_WIDEST} bits, found {width} at byte {self._position // 8}")
        self._align()
        words = self._fixed(32)
        end = self._position + words * 32
        if end > self._end:
            raise ValueError(f"it is cut off: a block of {words * 4} bytes begins at byte {self._position // 8}")
        if block == _BLOCK_INFO:
            self._block_info(width)
        elif block in _INTERESTING:
            self._depth += 1
            if self._depth > _DEEPEST:
                raise ValueError(f"blocks are nested more than {_DEEPEST} deep at byte {self._position // 8}")
            yield block, None
            yield from self._block(block, width)
            self._depth -= 1
        else:
            self._position = end

    def _block(self, block: int, width: int) -> Iterator[tuple[int, _Record | None]]:
        abbreviations = list(self._inherited.get(block, ()))
        while True:
            kind = self._fixed(width)
            if kind == _UNABBREVIATED:
                yield block, self._unabbreviated()
            elif kind == _ENTER_BLOCK:
                yield from self._enter()
            elif kind == _END_BLOCK:
                self._align()
                return
            elif kind == _DEFINE_ABBREVIATION:
                abbreviations.append(self._abbreviation())
            else:
                yield block, self._abbreviated(abbreviations[kind - 4])

    def _block_info(self, width: int) -> None:
        current: int | None = None
        while True:
            kind = self._fixed(width)
            if kind == _END_BLOCK:
                self._align()
                return
            if kind == _DEFINE_ABBREVIATION and current is not None:
                self._inherited.setdefault(current, []).append(self._abbreviation())
            elif kind == _UNABBREVIATED:
                record = self._unabbreviated()
                if record.code == _SET_BLOCK:
                    current = record.values[0]
            else:
                raise ValueError(f"impossible block information at byte {self._position // 8}")

    def _abbreviation(self) -> _Abbreviation:
        operands: _Abbreviation = []
        for _ in range(self._vbr(5)):
            if self._fixed(1):
                operands.append((_LITERAL, self._vbr(8)))
                continue
            encoding = self._fixed(3)
            width = self._vbr(5) if encoding in (_FIXED, _VBR) else 0
            if width > _WIDEST:
                raise ValueError(f"a field has at most {_WIDEST} bits, found {width} at byte {self._position // 8}")
            operands.append((encoding, width))
        if not operands:
            raise ValueError("an abbreviation without operands")
        return operands

    def _abbreviated(self, abbreviation: _Abbreviation) -> _Record:
        values: list[int] = []
        blob = b""
        for index, operand in enumerate(abbreviation):
            if operand[0] == _ARRAY:
                element = abbreviation[index + 1]
                values.extend([self._scalar(element) for _ in range(self._count())])
                break
            if operand[0] == _BLOB:
                blob = self._blob()
            else:
                values.append(self._scalar(operand))
        return _Record(values[0], values[1:], blob)

    def _blob(self) -> bytes:
        length = self._vbr(6)
        self._align()
        start = self._position // 8
        if start + length > len(self._data):
            raise ValueError(f"it is cut off: a blob of {length} bytes begins at byte {start}")
        self._position += length * 8
        self._align()
        return self._data[start : start + length]

    def _scalar(self, operand: _Operand) -> int:
        encoding, value = operand
        if encoding == _CHAR6:
            return _CHAR6_LETTERS[self._fixed(6)]
        if encoding == _FIXED and value:
            return self._fixed(value)
        if encoding == _VBR and value:
            return self._vbr(value)
        if encoding in (_LITERAL, _FIXED, _VBR):
            self._free -= 1
            if self._free < 0:
                raise ValueError(f"it has more values than {len(self._data)} bytes can mean")
            return value
        raise ValueError(f"the encoding {encoding} is unknown")

    def _unabbreviated(self) -> _Record:
        code = self._vbr(6)
        return _Record(code, [self._vbr(6) for _ in range(self._count())])

    def _count(self) -> int:
        count = self._vbr(6)
        if count > self._end - self._position:
            raise ValueError(f"it is cut off: a record of {count} values ends at byte {self._position // 8}")
        return count

    def _fixed(self, width: int) -> int:
        position = self._position
        if position + width > self._end:
            raise ValueError(f"it is cut off after {len(self._data)} bytes")
        self._position = position + width
        start = position >> 3
        word = int.from_bytes(self._data[start : start + 9], "little")
        return (word >> (position & 7)) & ((1 << width) - 1)

    def _vbr(self, width: int) -> int:
        # Most values fit into the 9 bytes of one look; the loop continues in the rare others.
        position = self._position
        high = 1 << (width - 1)
        start = position >> 3
        word = int.from_bytes(self._data[start : start + 9], "little") >> (position & 7)
        value = shift = used = 0
        while True:
            chunk = word & (2 * high - 1)
            value |= (chunk & (high - 1)) << shift
            used += width
            if position + used > self._end:
                raise ValueError(f"it is cut off after {len(self._data)} bytes")
            if not chunk & high:
                self._position = position + used
                return value
            shift += width - 1
            if shift > 70:
                raise ValueError(f"a number that does not end at byte {start}")
            word >>= width
            if used + width > 64:
                position += used
                used = 0
                start = position >> 3
                word = int.from_bytes(self._data[start : start + 9], "little") >> (position & 7)

    def _align(self) -> None:
        self._position = (self._position + 31) & ~31
