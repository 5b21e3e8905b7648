"""Section sizes of an ELF object."""

from __future__ import annotations

from dataclasses import dataclass

from mlgo_gym.llvm.elf import SHF_ALLOC, SHF_WRITE, SHT_NOBITS, read_elf


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """What an object file weighs, in bytes.

    Attributes:
        text: the sum of its executable sections (`SHF_EXECINSTR`): the instructions.
        llvm_size: the first column of `llvm-size`: allocated sections that are not written to, which also counts
            read-only data and unwind tables (llvm/tools/llvm-size/llvm-size.cpp, Berkeley format).
        object: the whole file.
    """

    text: int
    llvm_size: int
    object: int


def object_sizes(data: bytes) -> ObjectSizes:
    """Measure an ELF object file, 32 or 64 bits, either byte order.

    Raises:
        MlgoError: `data` is not a whole ELF file.
    """
    elf = read_elf(data)
    flags, sizes = elf.sections["flags"], elf.sections["size"]
    code = elf.executable
    kept = (flags & SHF_ALLOC != 0) & (elf.sections["type"] != SHT_NOBITS) & (code | (flags & SHF_WRITE == 0))
    # Not numpy's sum, which a damaged file can drive beyond 64 bits.
    return ObjectSizes(sum(sizes[code].tolist()), sum(sizes[kept].tolist()), len(data))
