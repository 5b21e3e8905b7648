"""Sources of modules for a corpus: the interface, and changes of modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mlgo_gym.corpus.commands.allowed import check_arguments
from mlgo_gym.corpus.commands.flags import edit_flags
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError

INFINITE = 2**31
"""Length of a corpus that generates modules without end."""


class Modules(Protocol):
    """Modules by name, each created on request."""

    @property
    def names(self) -> Sequence[str]:
        """Module names in order."""

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if its files are missing or broken."""

    def files(self, name: str) -> tuple[Path, ...]:
        """Return the bitcode of a module, then the other files that decide its content; they may be missing."""


def edit_module(
    module: Module, *, add: Sequence[str], delete: Sequence[str], replacements: Mapping[str, str]
) -> Module:
    """Return a module with flags edited as by `edit_flags()`; added ones come from the caller and are not checked."""
    if module.flags is None:
        raise CorpusError(f"{module.name}: expected recorded flags to edit, got none; open its corpus with flags=")
    try:
        flags = edit_flags(module.flags, delete=delete, replace=replacements)
    except CorpusError as error:
        raise CorpusError(f"{module.name}: {error}") from error
    if not module.trusted:
        check_arguments(flags, f"module {module.name!r}", module.inputs)
    return replace(module, flags=(*flags, *add), trusted=True)
