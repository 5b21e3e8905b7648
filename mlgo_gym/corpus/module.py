"""One bitcode module: its files and the flags that it was compiled with; and sources of modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from mlgo_gym.corpus.flags import check_arguments, edit_flags
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import sha256_of

MAX_MODULE_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class Module:
    """One unit of compilation.

    Attributes:
        name: name without `.bc`, unique in its corpus; may contain slashes.
        bitcode: bitcode file, recorded before optimisation.
        flags: recorded `-cc1` flags (first `-cc1`; no `-o`, `-x` or input); or driver flags; or None if not recorded.
        thinlto_index: ThinLTO summary index `NAME.thinlto.bc` of a distributed ThinLTO build.
        inputs: files of the corpus that the flags make clang read, such as profiles.
        trusted: whether the flags are run unchecked; otherwise only allowed ones, see SECURITY.md.
        metadata: further facts by name: `source`, `source_sha256`, `language`, `optimize`, `project`, ….
    """

    name: str
    bitcode: Path
    flags: tuple[str, ...] | None = None
    thinlto_index: Path | None = None
    inputs: tuple[str, ...] = ()
    trusted: bool = False
    metadata: dict[str, object] = field(default_factory=dict, compare=False, hash=False)

    def digest(self) -> str:
        """Return the SHA-256 of the bitcode in hexadecimal, cached per version of the file."""
        try:
            status = self.bitcode.stat()
        except FileNotFoundError as error:
            raise missing_bitcode(self.bitcode) from error
        if status.st_size > MAX_MODULE_BYTES:
            raise CorpusError(
                f"{self.bitcode}: expected a module of at most {MAX_MODULE_BYTES:,} bytes, got {status.st_size:,}; "
                "remove it from the corpus"
            )
        return _digest(self.bitcode, status.st_mtime_ns, status.st_size)


def missing_bitcode(bitcode: Path) -> CorpusError:
    """Return the error for a module whose bitcode was deleted."""
    return CorpusError(
        f"{bitcode}: expected the bitcode of a module, got no such file; record or extract the corpus again (for a "
        "dataset or builtin: open it again)"
    )


@lru_cache(maxsize=65536)
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    return sha256_of(path)


class Modules(Protocol):
    """Modules by name, each created on request."""

    @property
    def names(self) -> Sequence[str]:
        """Module names in order."""

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if its files are missing or broken."""

    def bitcode(self, name: str) -> Path:
        """Return the path of a module's bitcode, which may be missing."""


def edit_module(module: Module, *, add: Sequence[str], delete: Sequence[str]) -> Module:
    """Return a module with flags edited as by `edit_flags()`; added ones come from the caller and are not checked."""
    if module.flags is None:
        raise CorpusError(f"{module.name}: expected recorded flags to edit, got none; open its corpus with flags=")
    flags = edit_flags(module.flags, delete=delete)
    if not module.trusted:
        check_arguments(flags, f"module {module.name!r}", module.inputs)
    return replace(module, flags=(*flags, *add), trusted=True)
