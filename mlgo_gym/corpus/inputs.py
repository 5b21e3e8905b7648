"""Files that flags have clang read, such as a profile: a corpus holds them, since no other machine has them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mlgo_gym.corpus.allowed import kept_arguments
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import write_atomically

INPUTS_FOLDER = "inputs"
"""Where a corpus holds them; flags name them relative to the corpus."""

_UNSAFE = re.compile(r"[^\w.+-]+")


def keep_inputs(flags: Sequence[str], folder: Path, corpus: Path) -> tuple[str, ...]:
    """Copy what flags name into a corpus, and return the flags that name the copies.

    Args:
        flags: `-cc1` flags.
        folder: what the paths in them are relative to.
        corpus: the folder of the corpus.

    Raises:
        CorpusError: a file cannot be read.
    """
    kept = list(flags)
    for beginning, name in kept_arguments(tuple(flags)):
        path = folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CorpusError(f"the flag {beginning}{name} names a file that cannot be read: {error}") from error
        digest = hashlib.sha256(data).hexdigest()[:16]
        copy = f"{INPUTS_FOLDER}/{digest}-{_UNSAFE.sub('_', path.name)}"
        if not (corpus / copy).exists():
            write_atomically(corpus / copy, data)
        kept[kept.index(f"{beginning}{name}")] = f"{beginning}{copy}"
    return tuple(kept)


def with_inputs(flags: tuple[str, ...], corpus: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return flags with the places of the files of a corpus that they name, and these places.

    A file that the corpus does not hold stays as it is, and is none of these.
    """
    named = kept_arguments(flags)
    if not named:
        return flags, ()
    placed, inputs = list(flags), []
    for beginning, name in named:
        relative = PurePosixPath(name)
        path = corpus.absolute() / relative
        if (
            relative.is_absolute()
            or ".." in relative.parts
            or not os.path.realpath(path).startswith(f"{_real(corpus)}/")
        ):
            continue
        if path.is_file():
            placed[placed.index(f"{beginning}{name}")] = f"{beginning}{path}"
            inputs.append(str(path))
    return tuple(placed), tuple(inputs)


def _real(corpus: Path) -> str:
    return os.path.realpath(corpus)
