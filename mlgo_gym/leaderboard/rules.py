"""Checks of results against the benchmark protocol."""

from __future__ import annotations

from dataclasses import dataclass

from mlgo_gym.corpus.modules.corpus import DEFAULT_LEVEL, Corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration, effective_arguments
from mlgo_gym.evaluation.evaluated_policies import is_plain_clang
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.evaluation.protocol import DATASETS, ENVIRONMENT, LEVELS, SPLIT
from mlgo_gym.evaluation.result import EvaluationResult


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the protocol results at a level cover: missing datasets, and missing modules of the others."""

    level: str
    datasets: tuple[str, ...]
    modules: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.datasets and not self.modules

    def __str__(self) -> str:
        """Return what is missing, in words."""
        parts = []
        if self.datasets:
            parts.append(f"{len(self.datasets)} of {len(DATASETS)} datasets ({some(self.datasets)})")
        if self.modules:
            parts.append(f"{len(self.modules)} modules of the others ({some(self.modules)})")
        return " and ".join(parts) or "nothing"


def coverage_by_name(configuration: Configuration) -> Coverage:
    """Return the datasets that results cover, after a check of their configuration.

    Raises:
        MlgoError: The configuration deviates from the protocol by more than missing datasets.
    """
    if configuration.environment != ENVIRONMENT:
        raise _deviation("environment", ENVIRONMENT, configuration.environment)
    if others := effective_arguments(configuration.arguments):
        raise _deviation("arguments", "none that change results", others)
    if configuration.split != SPLIT:
        raise _deviation("split", f"--split {SPLIT}", configuration.split or "none")
    members = [part.strip().partition("@") for part in configuration.corpus.split(",")]
    unknown = [f"{name}{at}{level}" for name, at, level in members if name not in DATASETS]
    if unknown:
        raise _deviation("corpus", f"datasets of the protocol ({', '.join(DATASETS)})", ", ".join(unknown))
    levels = sorted({level or DEFAULT_LEVEL for _, _, level in members})
    if len(levels) > 1 or levels[0] not in LEVELS:
        raise _deviation("level", f"one of {' and '.join(LEVELS)}", ", ".join(levels))
    present = {name for name, _, _ in members}
    return Coverage(levels[0], tuple(name for name in DATASETS if name not in present))


def check_policy(identity: str) -> None:
    """Check that a policy takes decisions.

    Raises:
        MlgoError: It is a plain clang with other flags.
    """
    if is_plain_clang(identity):
        raise _deviation("policy", "one that takes decisions", f"a plain clang with other flags ({identity})")


def missing_modules(result: EvaluationResult, corpus: Corpus) -> tuple[str, ...]:
    """Return the modules of a corpus, the test split, without results.

    Raises:
        MlgoError: The results have a module that is not in the corpus, or that has other contents.
    """
    evaluated = {episode.module for episode in result.episodes}
    for name in sorted(evaluated):
        if name not in corpus:
            raise _deviation("modules", f"those of the {SPLIT} split of {corpus.name}", name)
        facts = result.modules.get(name)
        if facts is not None and facts != ModuleFacts.of(corpus.module(name)):
            raise MlgoError(
                f"expected the recorded contents and flags of the module {name}, got others; make the dataset again"
            )
    return tuple(name for name in corpus.names if name not in evaluated)


def _deviation(kind: str, expected: object, found: object) -> MlgoError:
    return MlgoError(
        f"the results deviate from the protocol: expected as {kind} {expected}, got {found}; use the command in "
        "docs/results/benchmark.md"
    )


def some(names: tuple[str, ...], limit: int = 4) -> str:
    """Return the first names, with an ellipsis for the others."""
    return ", ".join(names[:limit]) + ", …" * (len(names) > limit)
