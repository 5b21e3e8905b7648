"""The settings that results depend on. Results of different settings are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.episode.options import COMPILE_OPTIONS
from mlgo_gym.storage.json_text import check_fields

FORMAT = 3

_WITHOUT_EFFECT = frozenset({"clang", "info", "module_order", "render_mode"})
"""Arguments of environments that change no result; of the compiler, results record the version."""

_EFFECTIVE_COMPILE_OPTIONS = frozenset({"extra_flags", "flags"})
"""Entries of `compile_options` that change results. Limits only change failures, which run again."""


def effective_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an environment that results depend on."""
    kept = {name: value for name, value in arguments.items() if name not in _WITHOUT_EFFECT}
    entries = kept.pop(COMPILE_OPTIONS, {})
    entries = {name: value for name, value in entries.items() if name in _EFFECTIVE_COMPILE_OPTIONS}
    return {**kept, COMPILE_OPTIONS: entries} if entries else kept


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings that the results of an evaluation depend on.

    Attributes:
        environment: Id of the environment.
        arguments: Its arguments that results depend on, without the corpus.
        metric: Name of the compared metric, such as `text`.
        corpus: Corpus, as it was given; the name of a `Corpus`.
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

    def differences(self, other: Configuration) -> list[str]:
        """Return the reasons why results under another configuration must not be added to these, one line each."""
        lines = [
            f"{name}: recorded {getattr(self, name)}, requested {getattr(other, name)}"
            for name in ("environment", "arguments", "split", "clang", "seed", "counter")
            if getattr(self, name) != getattr(other, name)
        ]
        if self.modules_digest != other.modules_digest:
            recorded, requested = (f"{each.modules} modules of {each.corpus}" for each in (self, other))
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
        """Build a configuration from the data of `to_json()`.

        Raises:
            TypeError, KeyError, ValueError: The data have another form or format.
        """
        rest = dict(check_fields(cls, value))
        if rest.pop("format") != FORMAT:
            raise KeyError("format")
        return cls(**rest)
