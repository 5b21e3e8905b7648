"""LLVM's bitstream container: blocks and records, with abbreviations; blocks of no interest are skipped unread.

The format is that of LLVM's BitCodeFormat document, and of llvm/include/llvm/Bitstream/BitCodes.h.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_MAGIC = b"BC\xc0\xde"
_WRAPPER = b"\xde\xc0\x17\x0b"
_END_BLOCK, _ENTER_BLOCK, _DEFINE_ABBREVIATION, _UNABBREVIATED = 0, 1, 2, 3
_BLOCK_INFO, _SET_BLOCK = 0, 1
_LITERAL, _FIXED, _VBR, _ARRAY, _CHAR6, _BLOB = 0, 1, 2, 3, 4, 5
_DEEPEST = 16
_WIDEST = 32  # MaxChunkSize in llvm/include/llvm/Bitstream/BitCodes.h
_CHAR6_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

Block = int
"""The number of a kind of block."""

_Operand = tuple[int, int]
_Abbreviation = list[_Operand]


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its code, its values, and the bytes of its blob where it has one."""

    code: int
    values: list[int]
    blob: bytes = b""


def read_stream(data: bytes | mmap.mmap, wanted: Callable[[Block], bool]) -> Iterator[tuple[Block, Record | None]]:
    """Yield the records of a bitstream in order, each with the kind of block it is in; None where a block begins.

    Args:
        data: a whole bitstream, or one in LLVM's wrapper.
        wanted: whether to look into a kind of block; the others are skipped by their length, with all in them.

    Raises:
        ValueError: the magic number is missing, the stream ends too early, or its structure is impossible.
    """
    if data[:4] == _WRAPPER:
        if len(data) < 20:
            raise ValueError("the wrapper is cut off")
        offset, size = struct.unpack_from("<II", data, 8)
        if offset + size > len(data):
            raise ValueError(f"the wrapper names {offset + size} bytes, and there are {len(data)}")
        data = data[offset : offset + size]
    if data[:4] != _MAGIC:
        raise ValueError(f"the magic number 'BC' 0xC0DE is missing, found {data[:4].hex(' ') or 'nothing'}")
    return _Stream(data, wanted).blocks()


class _Stream:
    def __init__(self, data: bytes | mmap.mmap, wanted: Callable[[Block], bool]) -> None:
        self._data = data
        self._wanted = wanted
        self._position = 32
        self._end = len(data) * 8
        self._inherited: dict[Block, list[_Abbreviation]] = {}
        self._depth = 0
        # Values that an abbreviation gives for no bits: as many as there are bits are more than any writer needs.
        self._free = self._end

    def blocks(self) -> Iterator[tuple[Block, Record | None]]:
        while self._end - self._position >= 32:
            if self._fixed(2) != _ENTER_BLOCK:
                raise ValueError(f"expected a block at byte {self._position // 8}")
            yield from self._enter()

    def _enter(self) -> Iterator[tuple[Block, Record | None]]:
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
        elif self._wanted(block):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise ValueError(f"blocks are nested more than {_DEEPEST} deep at byte {self._position // 8}")
            yield block, None
            yield from self._block(block, width)
            self._depth -= 1
        else:
            self._position = end

    def _block(self, block: Block, width: int) -> Iterator[tuple[Block, Record | None]]:
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
        current: Block | None = None
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

    def _abbreviated(self, abbreviation: _Abbreviation) -> Record:
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
        return Record(values[0], values[1:], blob)

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

    def _unabbreviated(self) -> Record:
        code = self._vbr(6)
        return Record(code, [self._vbr(6) for _ in range(self._count())])

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
