"""One bitcode module: where it lies and how it was compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.hashing import sha256_of

LARGEST_MODULE = 1 << 31
"""The most bytes of bitcode: whole programs linked into one module have less."""


@dataclass(frozen=True, slots=True)
class Module:
    """One unit of compilation.

    Attributes:
        name: the name in its corpus, unique there, without `.bc`; may hold slashes.
        bitcode: the bitcode file, recorded before optimisation.
        flags: the recorded `-cc1` command line (its first element is `-cc1`; no `-o`, no `-x`, no input), or
            driver flags when the first element is anything else, or None when nothing was recorded.
        thinlto_index: the ThinLTO summary index `NAME.thinlto.bc`, for modules of a distributed ThinLTO build.
        inputs: the files of its corpus that its flags have clang read, such as a profile.
        trusted: whether its flags are run whatever they are; else only those that shape code, see SECURITY.md.
        metadata: what else is known, by name: `source`, `source_sha256`, `language`, `optimize`, `project`, ….
    """

    name: str
    bitcode: Path
    flags: tuple[str, ...] | None = None
    thinlto_index: Path | None = None
    inputs: tuple[str, ...] = ()
    trusted: bool = False
    metadata: dict[str, object] = field(default_factory=dict, compare=False, hash=False)

    def digest(self) -> str:
        """Return the SHA-256 of the bitcode, in hexadecimal. Read once per version of the file.

        Raises:
            CorpusError: the bitcode is gone, or there is more of it than of any module: it is a file with holes, or
                none of bitcode.
        """
        try:
            status = self.bitcode.stat()
        except FileNotFoundError as error:
            raise gone(self.bitcode) from error
        if status.st_size > LARGEST_MODULE:
            raise CorpusError(
                f"{self.bitcode}: a module of {LARGEST_MODULE:,} bytes at most was wanted, and this has "
                f"{status.st_size:,}; leave it out"
            )
        return _digest(self.bitcode, status.st_mtime_ns, status.st_size)


def gone(bitcode: Path) -> CorpusError:
    """Return the error of a module whose bitcode was there when its corpus was opened, or made."""
    return CorpusError(
        f"{bitcode}: the corpus lists this module, and its bitcode is missing; make it again, which of a dataset or "
        "builtin the same command does"
    )


@lru_cache(maxsize=65536)
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return sha256_of(file)
