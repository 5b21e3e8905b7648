"""Code and functions of a WebAssembly file, an object of clang or a linked module.

The format is that of the WebAssembly core specification, section 5.5; names of an object's functions are those of its
symbol table (WebAssembly/tool-conventions, Linking.md), and of a linked module those of its `name` section.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlgo_clang.object_size import WASM_CODE, WASM_FILE, WASM_MAGIC, check_end, read_leb128, wasm_sections
from mlgo_gym.errors import MlgoError

_CUSTOM, _IMPORT = 0, 2
_SYMBOL_TABLE, _FUNCTION_NAMES = 8, 1
_SYMBOL_FUNCTION, _SYMBOL_DATA, _SYMBOL_SECTION = 0, 1, 3
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40


@dataclass(frozen=True, slots=True)
class WasmFile:
    """A WebAssembly file, as far as its code goes.

    Attributes:
        size: bytes of the whole file.
        code: bytes of the contents of the code section.
        functions: names and bytes of each function in the code section, in order: its body and the length before it.
            Several names are aliases, and a function may have none.
    """

    size: int
    code: int
    functions: tuple[tuple[tuple[str, ...], int], ...]


class ByteReader:
    """Reads the numbers and strings of a part of a file.

    Args:
        data: The file.
        start, end: Offsets of the part.
        name: Name of the file in errors, with its article.
        bits: Maximum size of a number in LEB128.

    Attributes:
        at: Offset of the next byte.
    """

    def __init__(self, data: bytes, start: int, end: int, name: str = WASM_FILE, bits: int = 32) -> None:
        self._data, self.at, self.end, self._name, self._bits = data, start, end, name, bits

    def skip(self, size: int) -> None:
        """Skip bytes; raise `MlgoError` if there are fewer, as all methods do."""
        self.at += size
        check_end(self._data, self.at, self.end, self._name)

    def fixed(self, size: int) -> int:
        """Return an unsigned number of some bytes, little-endian."""
        self.skip(size)
        return int.from_bytes(self._data[self.at - size : self.at], "little")

    def number(self) -> int:
        """Return an unsigned number in LEB128."""
        value, self.at = read_leb128(self._data, self.at, self.end, self._bits, self._name)
        return value

    def text(self) -> str:
        """Return a string after its length."""
        length = self.number()
        self.skip(length)
        return self._data[self.at - length : self.at].decode(errors="surrogateescape")

    def parts(self) -> Iterator[tuple[int, ByteReader]]:
        """Yield the number and the contents of each section, or of each subsection."""
        for kind, start, end in wasm_sections(self._data, self.at, self.end):
            yield kind, ByteReader(self._data, start, end)


def read_wasm(data: bytes) -> WasmFile:
    """Read the code and the names of functions of a WebAssembly file; raise `MlgoError` for another file."""
    if len(data) < 8 or data[:4] != WASM_MAGIC:
        raise MlgoError(f"expected a WebAssembly file, got {len(data)} bytes that begin with {data[:4]!r}")
    imported, code, sizes = 0, 0, list[int]()
    symbols, names = list[tuple[int, str]](), list[tuple[int, str]]()
    for kind, section in ByteReader(data, 8, len(data)).parts():
        if kind == _IMPORT:
            imported = sum(_is_function_import(section) for _ in range(section.number()))
        elif kind == WASM_CODE:
            code = section.end - section.at
            sizes = [_body_size(section) for _ in range(section.number())]
        elif kind == _CUSTOM:
            title = section.text()
            if title == "linking":
                section.number()  # version
                symbols = [pair for part, table in section.parts() if part == _SYMBOL_TABLE for pair in _symbols(table)]
            elif title == "name":
                names = [
                    (table.number(), table.text())
                    for part, table in section.parts()
                    if part == _FUNCTION_NAMES
                    for _ in range(table.number())
                ]
    by_index: dict[int, list[str]] = {}
    for index, name in symbols or names:
        by_index.setdefault(index, []).append(name)
    functions = tuple((tuple(by_index.get(index, ())), size) for index, size in enumerate(sizes, start=imported))
    return WasmFile(len(data), code, functions)


def _is_function_import(section: ByteReader) -> bool:
    section.text()  # module
    section.text()  # name
    kind = section.fixed(1)
    if kind in (1, 2):  # table, memory
        section.skip(kind == 1)
        has_maximum = section.fixed(1) & 1
        for _ in range(1 + has_maximum):
            section.number()
    elif kind == 3:  # global
        section.skip(2)
    else:  # function, tag
        section.skip(kind == 4)
        section.number()
    return kind == 0


def _body_size(section: ByteReader) -> int:
    start = section.at
    section.skip(section.number())
    return section.at - start


def _symbols(table: ByteReader) -> Iterator[tuple[int, str]]:
    """Yield the index and the name of each defined function in a symbol table."""
    for _ in range(table.number()):
        kind, flags = table.fixed(1), table.number()
        if kind == _SYMBOL_DATA:
            table.text()
            for _ in range(0 if flags & _UNDEFINED else 3):  # segment, offset, size
                table.number()
            continue
        index = table.number()
        has_name = kind != _SYMBOL_SECTION and (not flags & _UNDEFINED or flags & _EXPLICIT_NAME)
        name = table.text() if has_name else ""
        if kind == _SYMBOL_FUNCTION and not flags & _UNDEFINED:
            yield index, name
