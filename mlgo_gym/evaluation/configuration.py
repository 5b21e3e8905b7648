"""The settings and the modules that results depend on. Results of different settings are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.cache import JsonCache
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.episode.options import COMPILE_OPTIONS
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.storage.json_files import check_fields

FORMAT = 3

UNKNOWN = "unknown"
"""Language of a module whose bitcode and build do not tell it."""

_facts = JsonCache("bitcode-facts")

_WITHOUT_EFFECT = frozenset({"clang", "info", "module_order", "render_mode"})
"""Arguments of environments that change no result; of the compiler, results record the version."""

_EFFECTIVE_COMPILE_OPTIONS = frozenset({"extra_flags", "flags"})
"""Entries of `compile_options` that change results. Limits only change failures, which run again."""


def effective_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an environment that results depend on."""
    effective = {name: value for name, value in arguments.items() if name not in _WITHOUT_EFFECT}
    entries = effective.pop(COMPILE_OPTIONS, {})
    entries = {name: value for name, value in entries.items() if name in _EFFECTIVE_COMPILE_OPTIONS}
    return {**effective, COMPILE_OPTIONS: entries} if entries else effective


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings that the results of an evaluation depend on.

    Attributes:
        environment: Id of the environment.
        arguments: Its arguments that results depend on, without the corpus.
        metric: Name of the compared metric, such as `text`.
        corpus: Corpus as the caller named it; the name of a `Corpus`.
        modules: Number of evaluated modules.
        modules_digest: Digest of their names, bitcode and flags.
        levels: Number of modules per optimisation level of their functions, for each corpus.
        clang: Version of the compiler.
        mlgo_gym: Version of this package.
        seed: Seed of random policies and of `limit`.
        policies: Identity of each policy, by name.
        split: Part of the corpus; None for all of it.
        limit: Number of modules that were drawn at random; None for all of them.
        counter: Counter of executed instructions; None with metrics that count none.
    """

    environment: str
    arguments: Mapping[str, Any]
    metric: str
    corpus: str
    modules: int
    modules_digest: str
    levels: Mapping[str, Mapping[str, int]]
    clang: str
    mlgo_gym: str
    seed: int
    policies: Mapping[str, str]
    split: str | None = None
    limit: int | None = None
    counter: str | None = None

    @property
    def described_modules(self) -> str:
        """Number of modules and corpus in words."""
        return f"{self.modules} modules of {self.corpus}"

    def differences(self, other: Configuration) -> list[str]:
        """Return the reasons why results under another configuration must not be added to these, one line each."""
        lines = [
            f"{name}: recorded {getattr(self, name)}, requested {getattr(other, name)}"
            for name in ("environment", "arguments", "split", "clang", "seed", "counter")
            if getattr(self, name) != getattr(other, name)
        ]
        if self.modules_digest != other.modules_digest:
            recorded, requested = self.described_modules, other.described_modules
            same_names = " with other contents" * (recorded == requested)
            lines.append(f"corpus: recorded {recorded}, requested {requested}{same_names}")
        lines += [
            f"policy {name}: its file has changed"
            for name, identity in self.policies.items()
            if other.policies.get(name, identity) != identity
        ]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Configuration:
        """Build a configuration from the data of `to_json()`; other data raise a TypeError, KeyError or ValueError."""
        rest = dict(check_fields(cls, value))
        if rest.pop("format") != FORMAT:
            raise KeyError("format")
        return cls(**rest)


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts about a module of an evaluation, by which two evaluations are compared.

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

    @classmethod
    def from_json(cls, value: object) -> ModuleFacts:
        """Build facts from a line of `modules.jsonl`; other data raise a TypeError, KeyError or ValueError."""
        fields = check_fields(cls, value)
        return cls(**{**fields, "flags": None if fields["flags"] is None else tuple(fields["flags"])})


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
    return str(module.metadata.get("language") or bitcode_facts(module).language or UNKNOWN)
