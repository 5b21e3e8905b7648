"""Whether results follow the protocol of the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from mlgo_gym.corpus.corpus import DEFAULT_LEVEL, Corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.contestants import is_plain_clang
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.evaluation.protocol import DATASETS, ENVIRONMENT, LEVELS, SPLIT
from mlgo_gym.evaluation.result import EvaluationResult

HARMLESS = frozenset({"timeout", "memory_limit", "cpu_limit", "trust"})
"""Arguments of the environment that change no size."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the protocol's modules results are about.

    Attributes:
        level: the optimisation level.
        datasets: the datasets that are missing.
        modules: the modules that are missing of those that are there.
    """

    level: str
    datasets: tuple[str, ...]
    modules: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.datasets and not self.modules

    def __str__(self) -> str:
        parts = []
        if self.datasets:
            parts.append(f"{len(self.datasets)} of {len(DATASETS)} datasets ({_some(self.datasets)})")
        if self.modules:
            parts.append(f"{len(self.modules)} modules of the others ({_some(self.modules)})")
        return " and ".join(parts) or "nothing"


def coverage_by_name(configuration: Configuration) -> Coverage:
    """Return which datasets results are about, after holding their configuration against the protocol.

    Raises:
        MlgoError: they deviate from it in more than what is missing; the text says in what.
    """
    if configuration.environment != ENVIRONMENT:
        raise _deviation("environment", ENVIRONMENT, configuration.environment)
    others = {name: value for name, value in configuration.arguments.items() if name not in HARMLESS}
    if others:
        raise _deviation("environment's arguments", "none", others)
    if configuration.split != SPLIT:
        raise _deviation("modules", f"`--split {SPLIT}`", configuration.split or "no split")
    members = [part.strip().partition("@") for part in configuration.corpus.split(",")]
    strange = [f"{name}{at}{level}" for name, at, level in members if name not in DATASETS]
    if strange:
        raise _deviation("corpus", f"datasets of the protocol ({', '.join(DATASETS)})", ", ".join(strange))
    levels = sorted({level or DEFAULT_LEVEL for _, _, level in members})
    if len(levels) > 1 or levels[0] not in LEVELS:
        raise _deviation("level", f"one of {' and '.join(LEVELS)}", ", ".join(levels))
    there = {name for name, _, _ in members}
    return Coverage(levels[0], tuple(name for name in DATASETS if name not in there))


def check_policy(identity: str) -> None:
    """Check that a policy answers decisions.

    Raises:
        MlgoError: it is another plain clang.
    """
    if is_plain_clang(identity):
        raise _deviation("policy", "one that answers decisions", f"a plain clang with other flags ({identity})")


def missing_modules(result: EvaluationResult, wanted: Corpus) -> tuple[str, ...]:
    """Return the modules of the protocol that results say nothing of.

    Args:
        result: the results of one policy.
        wanted: the test split of their corpus.

    Raises:
        MlgoError: they are about a module that is not in it, or that has other contents.
    """
    there = {episode.module for episode in result.episodes}
    for name in sorted(there):
        if name not in wanted:
            raise _deviation("modules", f"those of the {SPLIT} split of {wanted.name}", name)
        facts = result.modules.get(name)
        if facts is not None and facts != ModuleFacts.of(wanted.module(name)):
            raise MlgoError(
                f"the module {name} was measured with other contents or flags than it has here; make the dataset again"
            )
    return tuple(name for name in wanted.names if name not in there)


def _deviation(what: str, wanted: object, found: object) -> MlgoError:
    return MlgoError(
        f"these results do not follow the protocol. Its {what}: {wanted}; found {found}. docs/benchmark.md has the "
        "command that does"
    )


def _some(names: tuple[str, ...], most: int = 4) -> str:
    return ", ".join(names[:most]) + ", …" * (len(names) > most)
