"""Files that flags make clang read, such as profiles: copied into the corpus, so that every machine has them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mlgo_gym.corpus.commands.allowed import file_arguments
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import write_atomically

INPUTS_FOLDER = "inputs"
"""Folder of the copies; flags name them relative to the corpus."""

_UNSAFE = re.compile(r"[^\w.+-]+")


def copy_inputs(flags: Sequence[str], folder: Path, corpus: Path) -> tuple[str, ...]:
    """Copy the files that flags name, relative to `folder`, into a corpus, and return flags that name the copies.

    Raises `CorpusError` if a file cannot be read.
    """
    edited = list(flags)
    for prefix, name in file_arguments(tuple(flags)):
        path = folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CorpusError(f"the flag {prefix}{name} names a file that cannot be read: {error}") from error
        copy = f"{INPUTS_FOLDER}/{hashlib.sha256(data).hexdigest()[:16]}-{_UNSAFE.sub('_', path.name)}"
        if not (corpus / copy).exists():
            write_atomically(corpus / copy, data)
        edited[edited.index(f"{prefix}{name}")] = f"{prefix}{copy}"
    return tuple(edited)


def resolve_inputs(flags: tuple[str, ...], corpus: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return flags with absolute paths for the files that a corpus contains, and those paths.

    Flags that name any other file stay as they are.
    """
    named = file_arguments(flags)
    if not named:
        return flags, ()
    resolved, inputs = list(flags), []
    inside = f"{os.path.realpath(corpus)}/"
    for prefix, name in named:
        relative = PurePosixPath(name)
        path = corpus.absolute() / relative
        if relative.is_absolute() or ".." in relative.parts or not os.path.realpath(path).startswith(inside):
            continue
        if path.is_file():
            resolved[resolved.index(f"{prefix}{name}")] = f"{prefix}{path}"
            inputs.append(str(path))
    return tuple(resolved), tuple(inputs)
