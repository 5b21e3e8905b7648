"""What results depend on, so that results of different evaluations are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.storage.json_text import check_fields

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the results of an evaluation depend on.

    Attributes:
        environment: the environment's id.
        arguments: its arguments, but for corpus and compiler.
        metric: the name of the measure that counts, such as `text_size`.
        corpus: the corpus as it was named.
        modules: how many of its modules are evaluated.
        modules_digest: a digest of their names, bitcode and flags.
        levels: for each corpus, how many of them have functions of which optimisation level, as their attributes show.
        clang: the compiler's version.
        mlgo_gym: the version of this package.
        seed: what random policies depend on.
        policies: what tells each policy from others of its name, by name.
        split: which part of the corpus the modules are of; None for all of it.
        limit: how many of them were drawn at random; None where all were taken.
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

    def differences(self, other: Configuration) -> list[str]:
        """Return why another configuration would give other results for the same policies, a line for each reason."""
        lines = [
            f"{name}: {getattr(self, name)} there, {getattr(other, name)} now"
            for name in ("environment", "arguments", "split", "clang", "seed")
            if getattr(self, name) != getattr(other, name)
        ]
        if self.modules_digest != other.modules_digest:
            there, here = (f"{each.modules} modules of {each.corpus}" for each in (self, other))
            lines.append(f"corpus: {there} there, {here} now{' with other contents' * (there == here)}")
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
            TypeError, KeyError, ValueError: the data are of another form.
        """
        rest = dict(check_fields(cls, value))
        if rest.pop("format") != FORMAT:
            raise KeyError("format")
        return cls(**rest)
