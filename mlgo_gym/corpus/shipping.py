"""Modules on a machine that does not have their corpus: packed with all they need, and unpacked where they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.scheduling.shelf import Shelf

_FACTS = "module.json"
_BITCODE = "module.bc"
_INDEX = "module.thinlto.bc"
_INPUT = "input-{}"


def pack_module(corpus: Corpus, name: str) -> dict[str, bytes]:
    """Return a module as files: its bitcode, its ThinLTO index, what its flags have clang read, and the rest as JSON.

    Raises:
        CorpusError: its files are missing or broken; then the files say so where it is unpacked, too.
    """
    try:
        module = corpus.module(name)
        files = {_BITCODE: module.bitcode.read_bytes()}
        if module.thinlto_index is not None:
            files[_INDEX] = module.thinlto_index.read_bytes()
        for number, path in enumerate(module.inputs):
            files[_INPUT.format(number)] = Path(path).read_bytes()
    except (CorpusError, OSError) as error:
        return {_FACTS: json.dumps({"error": str(error)}).encode()}
    facts = {
        "flags": None if module.flags is None else [_packed(flag, module.inputs) for flag in module.flags],
        "inputs": len(module.inputs),
        "trusted": module.trusted,
        "metadata": module.metadata,
        "origin": corpus.origin(name),
    }
    return {**files, _FACTS: json.dumps(facts).encode()}


def _packed(flag: str, inputs: Sequence[str]) -> str | list[str | int]:
    """Return a flag, or what comes before the file that it names, and the number of that file."""
    for number, path in enumerate(inputs):
        if flag.endswith(path):
            return [flag.removesuffix(path), number]
    return flag


@dataclass(frozen=True, slots=True)
class CorpusOutline:
    """A corpus without its files, to be sent to other machines.

    Attributes:
        name: the corpus's name.
        prefix: what a joined corpus puts before the names of its modules.
        names: the names of its modules, in order.
    """

    name: str
    prefix: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> CorpusOutline:
        """Return the outline of a corpus.

        Raises:
            CorpusError: it has no end.
        """
        if corpus.endless:
            raise CorpusError(f"{corpus.name} has no end, so it cannot be sent; give a number, as in {corpus.name}:100")
        return cls(corpus.name, corpus.prefix, tuple(corpus.names))

    def on(self, shelf: Shelf) -> Corpus:
        """Return the corpus of the modules that come to a shelf, each by its name."""
        modules = ShelvedModules(self.names, shelf)
        return Corpus(self.name, modules, names=self.names, origin=modules.origin, prefix=self.prefix)


class ShelvedModules:
    """Modules that were packed on another machine.

    Args:
        names: their names, in order; they need not have come yet.
        shelf: where they come to.
    """

    def __init__(self, names: Sequence[str], shelf: Shelf) -> None:
        self.names = names
        self._shelf = shelf

    def load(self, name: str) -> Module:
        """Return a module.

        Raises:
            CorpusError: it has not come, or its files were missing or broken where they came from.
        """
        folder, facts = self._read(name)
        inputs = [str(folder / _INPUT.format(number)) for number in range(facts["inputs"])]
        flags = facts["flags"]
        index = folder / _INDEX
        return Module(
            name=name,
            bitcode=folder / _BITCODE,
            flags=None if flags is None else tuple(_unpacked(flag, inputs) for flag in flags),
            thinlto_index=index if index.is_file() else None,
            inputs=tuple(inputs),
            trusted=facts["trusted"],
            metadata=facts["metadata"],
        )

    def size(self, name: str) -> int:
        """Return the bytes of bitcode; `CorpusError` as for `load()`."""
        folder, _ = self._read(name)
        return (folder / _BITCODE).stat().st_size

    def stamp(self, name: str) -> str | None:  # noqa: ARG002 - the interface of modules
        """Return None: it comes when it is worked on."""
        return None

    def origin(self, name: str) -> tuple[str, str]:
        """Return the project of a module, and what it is called there; `CorpusError` as for `load()`."""
        project, local = self._read(name)[1]["origin"]
        return project, local

    def _read(self, name: str) -> tuple[Path, Mapping[str, Any]]:
        try:
            folder = self._shelf.folder(name)
        except MlgoError as error:
            raise CorpusError(f"module {error}") from error
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        if "error" in facts:
            raise CorpusError(facts["error"])
        return folder, facts


def _unpacked(flag: str | list[Any], inputs: Sequence[str]) -> str:
    return flag if isinstance(flag, str) else f"{flag[0]}{inputs[flag[1]]}"
