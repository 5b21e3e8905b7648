"""What an evaluation keeps of its modules: enough to tell what two runs have in common, and their languages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.storage.cache import JsonCache, write_atomically
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.json_text import check_fields

MODULES = "modules.jsonl"
UNKNOWN = "unknown"
"""The language of a module that does not say."""

_facts = JsonCache("bitcode-facts")


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A module of an evaluation.

    Attributes:
        module: its name.
        digest: the SHA-256 of its bitcode.
        source: the SHA-256 of its source, where the corpus knows it.
        language: what it was written in, or `UNKNOWN`.
        flags: its recorded command line; None where there is none.
    """

    module: str
    digest: str
    source: str | None
    language: str
    flags: tuple[str, ...] | None

    @classmethod
    def of(cls, module: Module) -> ModuleFacts:
        """Return what is kept of a module."""
        source = module.metadata.get("source_sha256")
        flags = None if module.flags is None else tuple(module.flags)
        return cls(module.name, module.digest(), source if isinstance(source, str) else None, language(module), flags)


def bitcode_facts(module: Module) -> BitcodeFacts:
    """Return what a module's bitcode says of itself; read once and kept on disk."""
    return _facts_of(module.bitcode, module.digest())


@lru_cache(maxsize=8)
def _facts_of(bitcode: Path, key: str) -> BitcodeFacts:
    known = _facts.get(key)
    if known is not None:
        try:
            return BitcodeFacts(**known)
        except TypeError:
            pass  # a record of another release of ours: read again
    facts = read_bitcode(bitcode)
    _facts.put(key, asdict(facts))
    return facts


def language(module: Module) -> str:
    """Return what a module was written in.

    The recorded build knows it (`language` in its `.json`); else the name of the source, the compiler that wrote the
    bitcode and the mangling of its functions' names tell, in this order.
    """
    recorded = module.metadata.get("language")
    return str(recorded or bitcode_facts(module).language or UNKNOWN)


def write_modules(folder: Path, modules: Iterable[ModuleFacts]) -> None:
    """Write what is kept of modules, a line of JSON for each, in the place of what was there."""
    lines = (json.dumps(asdict(module)) + "\n" for module in modules)
    write_atomically(folder / MODULES, "".join(lines).encode())


def read_modules(folder: Path) -> dict[str, ModuleFacts]:
    """Return what is kept of modules by name; nothing where an older release made the folder.

    Raises:
        MlgoError: a line is of another form.
    """
    path = folder / MODULES
    if not path.exists():
        return {}
    try:
        facts = [_parse(value) for _, value in read_json_lines(path)]
        return {each.module: each for each in facts}
    except (KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"{path} was to be about modules, and a line is not: {error!r}; evaluate again") from error


def _parse(value: Mapping[str, Any]) -> ModuleFacts:
    flags = check_fields(ModuleFacts, value)["flags"]
    return ModuleFacts(**{**value, "flags": None if flags is None else tuple(flags)})
