"""The bytes of a section of an object file, read with pyelftools or with llvm-objcopy."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Protocol

from mlgo_gym.errors import CorpusError, MissingExtraError
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.foreign_file import LARGEST, open_foreign
from mlgo_gym.storage.leftovers import temporary_folder


class SectionReader(Protocol):
    """Reads sections of object files."""

    def read(self, path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
        """Return the bytes of each named section; `CorpusError` when one is missing or the file is no object file."""


def find_section_reader(llvm_objcopy: str | None = None) -> SectionReader:
    """Return a way to read sections: the named `llvm-objcopy`, else pyelftools, else `llvm-objcopy` from `PATH`.

    Raises:
        CorpusError: there is no such program.
        MissingExtraError: none is named, and there is neither.
    """
    if llvm_objcopy is not None:
        program = shutil.which(llvm_objcopy)
        if program is None:
            raise CorpusError(f"there is no program {llvm_objcopy!r}; leave --llvm_objcopy_path out to use pyelftools")
        return ObjcopyReader(program)
    try:
        import elftools  # noqa: F401 - only whether it is there
    except ImportError:
        program = shutil.which("llvm-objcopy")
        if program is None:
            raise MissingExtraError("extraction without llvm-objcopy", "corpus") from None
        return ObjcopyReader(program)
    return ElfReader()


class ElfReader:
    """Reads ELF with pyelftools."""

    def read(self, path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
        """Return the bytes of each named section."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        try:
            with open_foreign(path) as file:
                elf = ELFFile(file)
                contents = []
                for name in names:
                    section = elf.get_section_by_name(name)
                    if section is None:
                        raise CorpusError(_missing(path, name))
                    # A compressed one can say that it is of any size, and be.
                    if section.data_size > LARGEST:
                        raise CorpusError(
                            f"{path}: its section {name} has {section.data_size:,} bytes, and {LARGEST:,} at most are "
                            "read; use llvm-objcopy for it"
                        )
                    contents.append(bytes(section.data()))
                return tuple(contents)
        except OSError as error:
            raise CorpusError(f"{path}: the object file cannot be read: {error}") from error
        # What pyelftools does not look for in a damaged file comes out of Python and zlib.
        except (ELFError, zlib.error, MemoryError, OverflowError, ValueError) as error:
            raise CorpusError(f"{path}: an ELF object file was wanted: {error}; for others use llvm-objcopy") from error


class ObjcopyReader:
    """Reads every format that an `llvm-objcopy` reads.

    Args:
        program: the path of `llvm-objcopy`.
    """

    def __init__(self, program: str) -> None:
        self._program = program

    def read(self, path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
        """Return the bytes of each named section."""
        with temporary_folder() as folder:
            files = [Path(folder, str(number)) for number in range(len(names))]
            dumps = [f"--dump-section={name}={file}" for name, file in zip(names, files, strict=True)]
            command = [self._program, *dumps, str(path), "/dev/null"]
            answer = run_bounded(command, writable=(folder,), timeout=60, name="llvm-objcopy")
            if answer.returncode != 0:
                raise CorpusError(
                    f"{path}: its sections were to be dumped, and llvm-objcopy said: {answer.stderr.strip()}"
                )
            return tuple(file.read_bytes() if file.exists() else b"" for file in files)


def _missing(path: Path, name: str) -> str:
    return f"{path}: it has no section {name}: build it with -Xclang -fembed-bitcode=all; assembly never has one"
