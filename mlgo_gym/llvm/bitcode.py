"""Reads LLVM bitcode without LLVM: target, producer, number of functions, and their attributes.

Block, record and attribute numbers are those of llvm/include/llvm/Bitcode/LLVMBitCodes.h. Function bodies, types,
constants and metadata are skipped by their length.
"""

import mmap
import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_clang.bitstream import FUNCTION, MODULE, MODULE_VERSION, STRING_TABLE, Record, Stream
from mlgo_gym.errors import CorpusError

_MAGIC = b"BC\xc0\xde"
_WRAPPER = b"\xde\xc0\x17\x0b"

_PARAMETER_ATTRIBUTES, _ATTRIBUTE_GROUPS, _IDENTIFICATION = 9, 10, 13
_TRIPLE, _SOURCE_FILENAME = 2, 16
_FUNCTION_INDEX = 0xFFFFFFFF
_MIN_SIZE, _OPTIMIZE_FOR_SIZE, _OPTIMIZE_NONE = 6, 19, 37

_INTERESTING = frozenset({MODULE, _PARAMETER_ATTRIBUTES, _ATTRIBUTE_GROUPS, _IDENTIFICATION, STRING_TABLE})

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


@dataclass(slots=True)
class _Reader:
    groups: dict[int, set[int]] = field(default_factory=dict)
    lists: list[list[int]] = field(default_factory=list)
    functions: list[Record] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    version: int = 0
    producer: str = ""
    strings: bytes = b""
    modules: int = 0

    def read(self, data: bytes | mmap.mmap) -> None:
        for block, record in Stream(data, _INTERESTING).blocks():
            if record is None:
                if block == MODULE:
                    self.modules += 1
                    if self.modules > 1:
                        break
            elif block == _IDENTIFICATION and record.code == 1:
                self.producer = self.producer or _text(record.values)
            elif block == _ATTRIBUTE_GROUPS and record.code == 3 and record.values[1] == _FUNCTION_INDEX:
                self.groups[record.values[0]] = _enum_attributes(record.values[2:])
            elif block == _PARAMETER_ATTRIBUTES and record.code == 2:
                self.lists.append(record.values)
            elif block == STRING_TABLE and record.code == 1:
                self.strings = self.strings or record.blob
            elif block == MODULE and record.code == MODULE_VERSION:
                self.version = record.values[0]
            elif block == MODULE and record.code == FUNCTION:
                self.functions.append(record)
            elif block == MODULE and record.code in (_TRIPLE, _SOURCE_FILENAME):
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
