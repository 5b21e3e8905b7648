"""Modules of a folder, with or without `corpus_description.json`; each is read on request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlgo_gym.corpus.commands.flags import take_thinlto_index
from mlgo_gym.corpus.commands.inputs import resolve_inputs
from mlgo_gym.corpus.description import (
    DESCRIPTION_FILE,
    UNSPECIFIED_OVERRIDE,
    read_command,
    read_description,
    read_metadata,
)
from mlgo_gym.corpus.module import Module, missing_bitcode
from mlgo_gym.errors import CorpusError


class FolderModules:
    """The modules of a folder with `corpus_description.json`, or of any folder with `.bc` files.

    `flags` are those of modules without recorded ones, whose `Module.flags` is None otherwise. `names` are the modules
    to take without a description. `project` is that of the description, or None.
    """

    def __init__(self, folder: Path, *, flags: Sequence[str] | None = None, names: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._fallback = None if flags is None else tuple(flags)
        self._override: tuple[str, ...] | None = None
        self._thinlto = False
        self.names: Sequence[str]
        self.project: str | None = None
        if names is not None:
            self.names = names
        elif (folder / DESCRIPTION_FILE).exists():
            self._read_description()
        else:
            self.names = sorted(_bitcode_files(folder))
        if not self.names:
            raise CorpusError(f"{folder}: expected .bc files, got none; give the folder of a corpus")

    def _read_description(self) -> None:
        description = read_description(self._folder)
        if description.global_command_override == UNSPECIFIED_OVERRIDE:
            raise CorpusError(
                f"{self._folder / DESCRIPTION_FILE}: expected flags in 'global_command_override', got "
                f"{UNSPECIFIED_OVERRIDE[0]}; write the -cc1 flags of the local ThinLTO link there"
            )
        project = description.extra.get("project")
        self.project = project if isinstance(project, str) else None
        self.names = description.modules
        # LLVM's make_corpus writes an empty override without flags.
        self._override = description.global_command_override or None
        self._thinlto = description.has_thinlto

    def missing_flags(self, limit: int = 1000) -> tuple[int, int]:
        """Return how many of the first modules have no recorded flags, and how many were checked (at most `limit`)."""
        if self._override is not None or self._fallback is not None:
            return 0, 0
        names = self.names[:limit]
        return sum(not (self._folder / f"{name}.cmd").is_file() for name in names), len(names)

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if its bitcode, flags or ThinLTO index is missing or broken."""
        bitcode = self._folder / f"{name}.bc"
        if not bitcode.is_file():
            raise missing_bitcode(bitcode)
        flags = self._recorded_flags(name)
        index = self._folder / f"{name}.thinlto.bc"
        needs_index = self._thinlto
        inputs: tuple[str, ...] = ()
        if flags is not None:
            flags, inputs = resolve_inputs(flags, self._folder)
            flags, needs_index = take_thinlto_index(flags)
        if needs_index and not index.is_file():
            raise CorpusError(f"{index}: expected the ThinLTO index of {name}, got no such file; extract it again")
        return Module(
            name=name,
            bitcode=bitcode,
            flags=self._fallback if flags is None else flags,
            thinlto_index=index if index.is_file() else None,
            inputs=inputs,
            trusted=flags is None,
            metadata=read_metadata(self._folder, name),
        )

    def files(self, name: str) -> tuple[Path, ...]:
        """Return the bitcode and the metadata of a module."""
        return self._folder / f"{name}.bc", self._folder / f"{name}.json"

    def _recorded_flags(self, name: str) -> tuple[str, ...] | None:
        if self._override is not None:
            return self._override
        command = self._folder / f"{name}.cmd"
        return read_command(command) if command.is_file() else None


def _bitcode_files(folder: Path) -> Iterator[str]:
    prefix = len(os.fspath(folder)) + 1
    for parent, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".bc") and not file.endswith(".thinlto.bc"):
                inside = parent[prefix:]
                yield f"{inside}/{file[:-3]}" if inside else file[:-3]
