"""Internal linkage in bitcode for functions that no other object needs, in place: no bit moves.

A `linkonce_odr` function is defined by each object that needs it. So no other object can miss that of this one. LLVM
writes records of functions without an abbreviation, and a number of such a record may have surplus digits.
"""

from __future__ import annotations

from mlgo_clang.bitstream import CONSTANTS, FUNCTION, GLOBAL_VARIABLE, MODULE, MODULE_VERSION, STRING_TABLE, Stream
from mlgo_clang.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from mlgo_clang.bitstream import Record

INTERNAL, AVAILABLE_EXTERNALLY, WEAK_ODR = 3, 12, 17
"""Linkages, as bitcode encodes them."""
_EXTERNAL, _LINKONCE_ODR = 0, 19
_ALIASES = 14, 15, 9
"""Records of aliases, of ifuncs, and of aliases in an old form."""
_OLD_ALIAS = 9
_BLOB, _SET_TYPE, _AGGREGATE = 1, 1, 7
_TARGET, _INITIALIZER, _IS_DECLARATION, _LINKAGE, _SECTION, _VARIABLE_COMDAT, _COMDAT = 4, 4, 4, 5, 8, 13, 14
"""Operands of the records of aliases, variables and functions, after the two of the name."""
_USED = b"llvm.used", b"llvm.compiler.used"


def make_internal(bitcode: bytes, names: frozenset[bytes]) -> tuple[bytes, int]:
    """Return bitcode in which the changeable functions of these names are internal, and their number.

    Raises `PolicyError` if this is no bitcode of a known form.
    """
    return change_linkage(bitcode, dict.fromkeys(names, INTERNAL))


def change_linkage(bitcode: bytes, linkages: Mapping[bytes, int]) -> tuple[bytes, int]:
    """Return bitcode in which changeable functions have a linkage by name, and their number; errors as above.

    A function that other objects can use may become `available_externally`.
    """
    data, reader, number = bytearray(bitcode), Stream(bitcode, frozenset()), 0
    external = {name for name, linkage in linkages.items() if linkage == AVAILABLE_EXTERNALLY}
    for name, record in changeable_functions(bitcode, external).items():
        if name in linkages:
            number += 1
            places = reader.places(record, _COMDAT + 1)
            _write(data, *places[_LINKAGE], linkages[name])
            if len(places) > _COMDAT and linkages[name] != WEAK_ODR:
                _write(data, *places[_COMDAT], 0)
    return bytes(data), number


def changeable_functions(bitcode: bytes, external: Container[bytes] = ()) -> dict[bytes, Record]:
    """Return the records of the functions whose linkage may be another one, by name; errors as above.

    These are `linkonce_odr` with a C++ name and alone in their comdat, and those of the names `external` that other
    objects can use. A function keeps its linkage if it has an alias or a section of its own, is in `llvm.used`, or is
    named by assembler text.
    """
    try:
        return dict(_changeable_functions(bitcode, external))
    except (ValueError, IndexError) as error:
        raise PolicyError(f"expected LLVM bitcode from the front end, got other data: {error}") from None


def _changeable_functions(bitcode: bytes, external: Container[bytes]) -> Iterator[tuple[bytes, Record]]:
    blobs = [record.blob for _, record in _records(bitcode, STRING_TABLE) if record.code == _BLOB]
    version, values = 0, list[tuple[bytes, "Record"]]()
    for _, record in _records(bitcode, MODULE):
        if record.code == MODULE_VERSION:
            version = record.values[0]
        elif record.code in (GLOBAL_VARIABLE, FUNCTION, *_ALIASES):
            values.append((blobs[0][record.values[0] : record.values[0] + record.values[1]], record))
    if version != 2 or len(blobs) != 1:
        raise ValueError(f"a module of version {version} with {len(blobs)} tables of strings")
    kept, comdats = _named_by_assembler(bitcode), dict[int, int]()
    used: list[int] = []
    for name, record in values:
        if record.code in _ALIASES:
            if record.code == _OLD_ALIAS or record.values[_TARGET] >= len(values):
                return  # an alias of an expression
            kept.add(values[record.values[_TARGET]][0])
        else:
            comdat = _VARIABLE_COMDAT if record.code == GLOBAL_VARIABLE else _COMDAT
            if len(record.values) > comdat:
                comdats[record.values[comdat]] = comdats.get(record.values[comdat], 0) + 1
            if name in _USED:
                used.append(record.values[_INITIALIZER] - 1)
    if used:
        kept.update(values[number][0] for number in _members(bitcode, used, len(values)) if number < len(values))
    for name, record in values:
        if (
            record.code == FUNCTION
            and (
                (record.values[_LINKAGE] == _LINKONCE_ODR and name.startswith(b"_Z"))
                or (record.values[_LINKAGE] in (_EXTERNAL, WEAK_ODR) and name in external)
            )
            and name not in kept
            and not record.values[_IS_DECLARATION]
            and not record.values[_SECTION]
            and (len(record.values) <= _COMDAT or not record.values[_COMDAT] or comdats[record.values[_COMDAT]] == 1)
        ):
            yield name, record


def _records(bitcode: bytes, *blocks: int) -> Iterator[tuple[int, Record]]:
    for block, record in Stream(bitcode, frozenset(blocks)).blocks():
        if record is not None:
            yield block, record


def _members(bitcode: bytes, arrays: Sequence[int], number: int) -> Iterator[int]:
    """Yield the values in constant arrays; `number` is that of the first constant of the module."""
    for block, record in _records(bitcode, MODULE, CONSTANTS):
        if block == CONSTANTS and record.code != _SET_TYPE:
            if number in arrays:
                if record.code != _AGGREGATE:
                    raise ValueError(f"llvm.used is a constant of kind {record.code}")
                yield from record.values
            number += 1


_MANGLED = 63 | 2 << 6 | 58 << 12 | 2 << 18
"""The letters `_Z` of an unabbreviated record: of each letter five bits, one more to come, and the other bits."""


def _named_by_assembler(bitcode: bytes) -> set[bytes]:
    """Return the C++ names in assembler text of a module and of its functions, which is in unabbreviated records."""
    names: set[bytes] = set()
    for shift in range(8):
        word = (_MANGLED << shift).to_bytes(4, "little")
        # Bytes of which all bits are known.
        known = word[1:3] if shift else word[:3]
        at = bitcode.find(known)
        while at >= 0:
            start = at - bool(shift)
            text = int.from_bytes(bitcode[max(start, 0) : start + 4], "little") >> shift
            if start >= 0 and text & 0xFFFFFF == _MANGLED:
                names.add(_letters(bitcode, start * 8 + shift))
            at = bitcode.find(known, at + 1)
    return names


def _letters(bitcode: bytes, position: int) -> bytes:
    name = bytearray()
    while True:
        start = position >> 3
        pair = int.from_bytes(bitcode[start : start + 3], "little") >> (position & 7) & 0xFFF
        letter = (pair & 31) | (pair >> 6) << 5
        if not pair & 32 or letter > 127 or not (chr(letter).isalnum() or letter in b"_.$"):
            return bytes(name)
        name.append(letter)
        position += 12


def _write(data: bytearray, start: int, bits: int, value: int) -> None:
    """Write a number with digits of six bits in as many bits; surplus digits are zero."""
    digits = bits // 6
    word = sum((value >> 5 * digit & 31 | 32 * (digit < digits - 1)) << 6 * digit for digit in range(digits))
    first, last = start >> 3, start + bits + 7 >> 3
    mask = ((1 << bits) - 1) << (start & 7)
    old = int.from_bytes(data[first:last], "little")
    data[first:last] = (old & ~mask | word << (start & 7)).to_bytes(last - first, "little")
