"""Modules on machines without their corpus: packed with all files that they need, and read from a file store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.scheduling import FileStore

_FACTS = "module.json"
_BITCODE = "module.bc"
_INDEX = "module.thinlto.bc"
_INPUT = "input-{}"


def pack_module(corpus: Corpus, name: str) -> dict[str, bytes]:
    """Return the files of a module by name: bitcode, ThinLTO index, inputs of its flags, and the rest as JSON.

    The files of a broken module contain its error, which `StoredModules.load()` raises.
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
    facts = {field: getattr(module, field) for field in ("flags", "inputs", "trusted", "metadata")}
    facts["origin"] = corpus.origin(name)
    return {**files, _FACTS: json.dumps(facts).encode()}


@dataclass(frozen=True, slots=True)
class CorpusOutline:
    """Name, prefix in joined corpora, and module names of a corpus: all but its files, for other machines."""

    name: str
    prefix: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> CorpusOutline:
        """Return the outline of a corpus."""
        return cls(corpus.name, corpus.prefix, tuple(corpus.names))

    def open(self, store: FileStore) -> Corpus:
        """Return the corpus whose modules arrive in a file store under their names."""
        modules = StoredModules(self.names, store)
        return Corpus(self.name, modules, names=self.names, origin=modules.origin, prefix=self.prefix)


class StoredModules:
    """Modules that `pack_module()` packed on another machine; their files may arrive in the store later."""

    def __init__(self, names: Sequence[str], store: FileStore) -> None:
        self.names = names
        self._store = store

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if it has not arrived, or its files are broken on the other machine."""
        folder, facts = self._read(name)
        inputs = {path: str(folder / _INPUT.format(number)) for number, path in enumerate(facts["inputs"])}
        flags: list[str] | None = facts["flags"]
        for old, new in inputs.items():
            flags = [f"{flag.removesuffix(old)}{new}" if flag.endswith(old) else flag for flag in flags or ()]
        index = folder / _INDEX
        return Module(
            name=name,
            bitcode=folder / _BITCODE,
            flags=None if flags is None else tuple(flags),
            thinlto_index=index if index.is_file() else None,
            inputs=tuple(inputs.values()),
            trusted=facts["trusted"],
            metadata=facts["metadata"],
        )

    def bitcode(self, name: str) -> Path:
        """Return the path of the bitcode; raise `CorpusError` as `load()` does."""
        return self._read(name)[0] / _BITCODE

    def origin(self, name: str) -> tuple[str, str]:
        """Return the project of a module and its name there; raise `CorpusError` as `load()` does."""
        project, local = self._read(name)[1]["origin"]
        return project, local

    def _read(self, name: str) -> tuple[Path, Mapping[str, Any]]:
        try:
            folder = self._store.folder(name)
        except MlgoError as error:
            raise CorpusError(str(error)) from error
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        if "error" in facts:
            raise CorpusError(facts["error"])
        return folder, facts
