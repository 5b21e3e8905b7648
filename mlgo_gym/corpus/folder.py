"""Modules that lie in a folder: with a description, or any `.bc` files; each is looked at when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlgo_gym.corpus.description import (
    DESCRIPTION_FILE,
    UNSPECIFIED_OVERRIDE,
    read_command,
    read_description,
    read_metadata,
)
from mlgo_gym.corpus.flags import take_thinlto_index
from mlgo_gym.corpus.inputs import with_inputs
from mlgo_gym.corpus.module import Module, gone
from mlgo_gym.corpus.modules import stamp_of
from mlgo_gym.errors import CorpusError


class FolderModules:
    """The modules of one folder.

    Args:
        folder: a folder with `corpus_description.json`, or any folder of `.bc` files.
        flags: for modules without recorded flags; without them their `Module.flags` is None.

    Attributes:
        names: module names in the order of the description, or sorted.
        project: the description's `project`, if it has one.

    Raises:
        CorpusError: the description is broken, its override was never filled in, or there is no module.
    """

    def __init__(self, folder: Path, *, flags: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._fallback = None if flags is None else tuple(flags)
        self._override: tuple[str, ...] | None = None
        self._thinlto = False
        self.names: Sequence[str]
        self.project: str | None = None
        if (folder / DESCRIPTION_FILE).exists():
            self._read_description()
        else:
            self.names = sorted(_bitcode_files(folder))
        if not self.names:
            raise CorpusError(f"{folder}: modules were wanted, and there is no .bc file; give a corpus folder")

    def _read_description(self) -> None:
        description = read_description(self._folder)
        if description.global_command_override == UNSPECIFIED_OVERRIDE:
            raise CorpusError(
                f"{self._folder / DESCRIPTION_FILE}: 'global_command_override' is still {UNSPECIFIED_OVERRIDE[0]}: "
                "a local ThinLTO build leaves no flags; write the -cc1 flags of the link there"
            )
        project = description.extra.get("project")
        self.project = project if isinstance(project, str) else None
        self.names = description.modules
        # LLVM's make_corpus writes an empty override where nobody gave flags.
        self._override = description.global_command_override or None
        self._thinlto = description.has_thinlto

    def missing_flags(self, most: int = 1000) -> tuple[int, int]:
        """Return how many of the first modules have no recorded flags, and how many were looked at."""
        if self._override is not None or self._fallback is not None:
            return 0, 0
        names = self.names[:most]
        return sum(not (self._folder / f"{name}.cmd").is_file() for name in names), len(names)

    def load(self, name: str) -> Module:
        """Return a module.

        Raises:
            CorpusError: its bitcode, its flags or its ThinLTO index is missing or broken.
        """
        bitcode = self._folder / f"{name}.bc"
        if not bitcode.is_file():
            raise gone(bitcode)
        flags = self._recorded_flags(name)
        index = self._folder / f"{name}.thinlto.bc"
        inputs: tuple[str, ...] = ()
        if flags is not None:
            flags, inputs = with_inputs(flags, self._folder)
            flags, names_index = take_thinlto_index(flags)
            if names_index and not index.is_file():
                raise CorpusError(
                    f"{index}: the flags of {name} name a ThinLTO index, and the corpus has none; extract it again"
                )
        elif self._thinlto and not index.is_file():
            raise CorpusError(f"{index}: a ThinLTO corpus has an index for each module; extract it again")
        return Module(
            name=name,
            bitcode=bitcode,
            flags=self._fallback if flags is None else flags,
            thinlto_index=index if index.is_file() else None,
            inputs=inputs,
            trusted=flags is None,
            metadata=read_metadata(self._folder, name),
        )

    def size(self, name: str) -> int:
        """Return the bytes of bitcode of a module.

        Raises:
            CorpusError: its bitcode is missing.
        """
        try:
            return (self._folder / f"{name}.bc").stat().st_size
        except OSError as error:
            raise CorpusError(f"{name}: its bitcode cannot be read: {error}; make the corpus again") from error

    def stamp(self, name: str) -> str | None:
        """Return what tells the version of a module's bitcode and metadata."""
        return stamp_of(self._folder / f"{name}.bc", self._folder / f"{name}.json")

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
