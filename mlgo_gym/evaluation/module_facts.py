"""Facts about the modules of an evaluation, by which two evaluations are compared: digests, language, flags."""

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
"""Language of a module whose bitcode and build do not tell it."""

_facts = JsonCache("bitcode-facts")


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts about a module of an evaluation.

    Attributes:
        module: Name of the module.
        digest: SHA-256 of its bitcode.
        source: SHA-256 of its source; None if the corpus does not record it.
        language: Source language, or `UNKNOWN`.
        flags: Recorded flags; None if the module has none.
    """

    module: str
    digest: str
    source: str | None
    language: str
    flags: tuple[str, ...] | None

    @classmethod
    def of(cls, module: Module) -> ModuleFacts:
        """Return the facts about a module."""
        source = module.metadata.get("source_sha256")
        flags = None if module.flags is None else tuple(module.flags)
        return cls(module.name, module.digest(), source if isinstance(source, str) else None, language(module), flags)


def bitcode_facts(module: Module) -> BitcodeFacts:
    """Return the facts in a module's bitcode; they are read once and cached on disk."""
    return _facts_of(module.bitcode, module.digest())


@lru_cache(maxsize=8)
def _facts_of(bitcode: Path, key: str) -> BitcodeFacts:
    try:
        return BitcodeFacts(**(_facts.get(key) or {}))
    except TypeError:  # not in the cache, or written by another release
        facts = read_bitcode(bitcode)
        _facts.put(key, asdict(facts))
        return facts


def language(module: Module) -> str:
    """Return the source language of a module, or `UNKNOWN`.

    The recorded build has it as `language` in the module's `.json`. Otherwise the source's name, the compiler that
    wrote the bitcode and the mangling of its functions' names are consulted, in this order.
    """
    recorded = module.metadata.get("language")
    return str(recorded or bitcode_facts(module).language or UNKNOWN)


def write_modules(folder: Path, modules: Iterable[ModuleFacts]) -> None:
    """Write facts about modules to `modules.jsonl`, one line each; an existing file is replaced."""
    lines = (json.dumps(asdict(module)) + "\n" for module in modules)
    write_atomically(folder / MODULES, "".join(lines).encode())


def read_modules(folder: Path) -> dict[str, ModuleFacts]:
    """Return the facts about modules by name; empty if the folder has no `modules.jsonl`.

    Raises:
        MlgoError: A line has another form.
    """
    path = folder / MODULES
    if not path.exists():
        return {}
    try:
        facts = [_parse(value) for _, value in read_json_lines(path)]
        return {each.module: each for each in facts}
    except (KeyError, TypeError, ValueError) as error:
        raise MlgoError(
            f"{path}: expected facts about modules, got another form ({error!r}); evaluate again"
        ) from error


def _parse(value: Mapping[str, Any]) -> ModuleFacts:
    flags = check_fields(ModuleFacts, value)["flags"]
    return ModuleFacts(**{**value, "flags": None if flags is None else tuple(flags)})
