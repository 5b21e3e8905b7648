"""Records of LLVM bitcode: a reader of bitstreams.

The container is that of LLVM's BitCodeFormat document and of llvm/include/llvm/Bitstream/BitCodes.h. Numbers of blocks
and records are those of llvm/include/llvm/Bitcode/LLVMBitCodes.h.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator

    _Operand = tuple[int, int]
    _Abbreviation = list[_Operand]

MODULE, CONSTANTS, _IDENTIFICATION, STRING_TABLE = 8, 11, 13, 23
"""Blocks."""

MODULE_VERSION, GLOBAL_VARIABLE, FUNCTION = 1, 7, 8
"""Records of the block of a module."""

_END_BLOCK, _ENTER_BLOCK, _DEFINE_ABBREVIATION, _UNABBREVIATED = 0, 1, 2, 3
_BLOCK_INFO, _SET_BLOCK = 0, 1
_LITERAL, _FIXED, _VBR, _ARRAY, _CHAR6, _BLOB = 0, 1, 2, 3, 4, 5
_DEEPEST = 16
_WIDEST = 32  # MaxChunkSize in llvm/include/llvm/Bitstream/BitCodes.h
_CHAR6_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"


class Record:
    """One record: its code, its values, the bytes of its blob, if any, and the position of its values in bits."""

    __slots__ = ("blob", "code", "start", "values")

    def __init__(self, code: int, values: list[int], blob: bytes = b"", start: int = 0) -> None:
        self.code, self.values, self.blob, self.start = code, values, blob, start


class Stream:
    """A reader of a bitstream.

    Args:
        data: the bitstream, without a wrapper.
        blocks: numbers of the blocks to read; others are skipped by their length.

    Raises:
        ValueError: the data are no whole bitstream, as its methods do.
    """

    def __init__(self, data: bytes | mmap.mmap, blocks: frozenset[int]) -> None:
        self._data, self._interesting = data, blocks
        self._position = 32
        self._end = len(data) * 8
        self._inherited: dict[int, list[_Abbreviation]] = {}
        self._depth = 0
        # Values that an abbreviation gives for no bits: as many as there are bits are more than any writer needs.
        self._free = self._end

    def blocks(self) -> Iterator[tuple[int, Record | None]]:
        """Yield the records in order, each with the number of its block; None where a block begins."""
        while self._end - self._position >= 32:
            if self._fixed(2) != _ENTER_BLOCK:
                raise ValueError(f"expected a block at byte {self._position // 8}")
            yield from self._enter()

    def _enter(self) -> Iterable[tuple[int, Record | None]]:
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
        elif block in self._interesting:
            return self._block(block, width)
        else:
            self._position = end
        return ()

    def _block(self, block: int, width: int) -> Iterator[tuple[int, Record | None]]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"blocks are nested more than {_DEEPEST} deep at byte {self._position // 8}")
        yield block, None
        abbreviations = list(self._inherited.get(block, ()))
        while True:
            kind = self._fixed(width)
            if kind == _UNABBREVIATED:
                yield block, self._unabbreviated()
            elif kind == _ENTER_BLOCK:
                yield from self._enter()
            elif kind == _END_BLOCK:
                self._align()
                self._depth -= 1
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
        count = self._count()
        start = position = self._position
        values: list[int] = []
        while len(values) < count:
            # A call for each value would take most of the time.
            word = int.from_bytes(self._data[position >> 3 : (position >> 3) + 31], "little") >> (position & 7)
            value = shift = 0
            for after in range(position + 6, min(position + 240, self._end) + 1, 6):
                digit = word & 63
                word >>= 6
                if digit > 31:
                    value |= (digit & 31) << shift
                    shift += 5
                elif shift > 70 or len(values) == count:
                    break
                else:
                    values.append(value | digit << shift)
                    value = shift = 0
                    position = after
            if position == self._position:
                self._vbr(6)  # fails, since no number ends here
            self._position = position
        return Record(code, values, start=start)

    def places(self, record: Record, number: int) -> list[tuple[int, int]]:
        """Return the position and the length in bits of the first values of an unabbreviated record."""
        before, self._position = self._position, record.start
        places = []
        for _ in record.values[:number]:
            start = self._position
            self._vbr(6)
            places.append((start, self._position - start))
        self._position = before
        return places

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


def llvm_version(bitcode: bytes) -> str:
    """Return the version of the LLVM that wrote bitcode, such as `22.1.8`; empty if these are other data."""
    try:
        records = (record for _, record in Stream(bitcode, frozenset((_IDENTIFICATION,))).blocks() if record)
        return bytes(next(records).values).decode().removeprefix("LLVM")
    except (StopIteration, ValueError, IndexError):
        return ""
