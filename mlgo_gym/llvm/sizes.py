"""The sizes of an object, ELF or WebAssembly, and of each of its functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mlgo_clang.object_size import SHF_ALLOC, SHT_NOBITS, WASM_MAGIC, object_size
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import STRIPPED, SymbolTable, WasmFile, read_elf, read_symbol_table, read_wasm

_EM_ARM = 40
_SHF_WRITE = 1


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """The sizes of an object file, in bytes.

    Attributes:
        text: the executable sections of ELF (`SHF_EXECINSTR`), or the contents of WebAssembly's code section.
        llvm_size: the first column of `llvm-size` (llvm/tools/llvm-size/llvm-size.cpp, Berkeley format): for ELF the
            allocated sections that are not written to, with read-only data and unwind tables; for WebAssembly `text`.
        loaded: the contents of memory that a file or a flash holds: the columns `text` and `data` of `size`, for ELF
            the allocated sections without `.bss`, for WebAssembly the sections of code and data.
        object: the whole file.
    """

    text: int
    llvm_size: int
    loaded: int
    object: int


def object_sizes(data: bytes) -> ObjectSizes:
    """Measure an object file, ELF or WebAssembly; raise `MlgoError` if `data` is not a whole one."""
    if data[:4] == WASM_MAGIC:
        code = read_wasm(data).code
        return ObjectSizes(code, code, object_size(data, "loaded"), len(data))
    elf = read_elf(data)
    flags, sizes = elf.sections["flags"], elf.sections["size"]
    loaded = (flags & SHF_ALLOC != 0) & (elf.sections["type"] != SHT_NOBITS)
    shown = loaded & (elf.executable | (flags & _SHF_WRITE == 0))
    # Not numpy's sum, which a damaged file can drive beyond 64 bits.
    text, llvm_size, memory = (sum(sizes[mask].tolist()) for mask in (elf.executable, shown, loaded))
    return ObjectSizes(text, llvm_size, memory, len(data))


class FunctionSizes(NamedTuple):
    """The sizes of the functions in the executable sections of an object.

    Every byte is counted once: `sum(functions.values()) + unnamed` is `text`.

    Attributes:
        functions: the bytes of each function, under the first of its names in the order of the alphabet. Functions of
            the same name are counted together. Split-off parts (`f.cold`, `f.part.1`) have entries of their own.
        aliases: each further name of a function, and the name that it is counted under.
        unnamed: the bytes that no function's symbol covers: padding, and assembly without sizes.
        text: the sum of the executable sections, as `ObjectSizes.text`.
    """

    functions: Mapping[str, int]
    aliases: Mapping[str, str]
    unnamed: int
    text: int

    def name(self, function: str) -> str | None:
        """Return the name that a function is counted under; None where the object has no such function."""
        return function if function in self.functions else self.aliases.get(function)


def function_sizes(data: bytes) -> FunctionSizes:
    """Measure every function of an object file: ELF of 32 or 64 bits in either byte order, or WebAssembly.

    A function of WebAssembly is an entry of the code section with a symbol. A function of ELF is a symbol of type
    `STT_FUNC` or `STT_GNU_IFUNC` with a size, in an executable section (elf(5)). Bytes that two of them share belong to
    the one that begins first, the longer first. Raises `MlgoError` for a damaged object, or a stripped one with code.
    """
    if data[:4] == WASM_MAGIC:
        return _wasm_function_sizes(read_wasm(data))
    elf = read_elf(data)
    text = sum(elf.sections["size"][elf.executable].tolist())
    table = read_symbol_table(elf)
    if table is None:
        if text:
            raise MlgoError(STRIPPED)
        return FunctionSizes({}, {}, 0, 0)
    names, sections, starts, sizes = _function_symbols(table)
    # By place, the longer first, and names in order where all of it is the same.
    order = sorted(range(len(names)), key=lambda at: (sections[at], starts[at], -sizes[at], names[at]))
    functions: dict[str, int] = {}
    aliases: dict[str, str] = {}
    section, end, place, first = -1, 0, (-1, -1, -1), ""
    for at in order:
        if (sections[at], starts[at], sizes[at]) == place:
            aliases[names[at]] = first
            continue
        place, first = (sections[at], starts[at], sizes[at]), names[at]
        if sections[at] != section:
            section, end = sections[at], 0
        stop = starts[at] + sizes[at]
        functions[first] = functions.get(first, 0) + max(stop - max(end, starts[at]), 0)
        end = max(end, stop)
    # A name that is one function's own is no other's alias.
    aliases = {name: target for name, target in aliases.items() if name not in functions}
    return FunctionSizes(functions, aliases, text - sum(functions.values()), text)


def _wasm_function_sizes(wasm: WasmFile) -> FunctionSizes:
    named = [(sorted(names), size) for names, size in wasm.functions if names]
    if wasm.functions and not named:
        raise MlgoError(STRIPPED)
    functions: dict[str, int] = {}
    for (first, *_), size in named:
        functions[first] = functions.get(first, 0) + size
    aliases = {name: first for (first, *others), _ in named for name in others if name not in functions}
    return FunctionSizes(functions, aliases, wasm.code - sum(functions.values()), wasm.code)


def size_changes(before: FunctionSizes, after: FunctionSizes) -> dict[str, int]:
    """Return by how many bytes each function has grown, where that is not 0.

    A function that is in one object alone has all its bytes as its change. One that is counted under another of its
    names in the second object is still the same; its change stands under its name in the first.
    """
    old, new = before.functions, after.functions
    renamed: dict[str, str] = {}
    for sizes, other in ((before, after), (after, before)):
        for name in sizes.functions.keys() - other.functions.keys():
            counterpart = other.aliases.get(name)
            if counterpart is not None and counterpart not in sizes.functions:
                first, second = (name, counterpart) if sizes is before else (counterpart, name)
                renamed[second] = first
    changes = dict.fromkeys(old, 0)
    for name, size in old.items():
        changes[name] -= size
    for name, size in new.items():
        target = renamed.get(name, name)
        changes[target] = changes.get(target, 0) + size
    return {name: change for name, change in changes.items() if change}


def _function_symbols(table: SymbolTable) -> tuple[list[str], list[int], list[int], list[int]]:
    elf, functions = table.elf, table.functions
    symbols, sections = table.symbols[functions], table.sections[functions]
    executable = elf.executable[sections]
    symbols, sections = symbols[executable], sections[executable]
    starts = symbols["value"].astype(np.int64)
    if elf.machine == _EM_ARM:
        starts &= ~1  # the lowest bit says that it is Thumb code
    return table.names(symbols), sections.tolist(), starts.tolist(), symbols["size"].astype(np.int64).tolist()
