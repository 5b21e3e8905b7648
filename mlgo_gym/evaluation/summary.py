"""The change of a metric over modules, and the summary of a policy's episodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.evaluation.episode_result import DONE, FAILED, NO_DECISIONS, EpisodeResult

TEXT = "text"
"""The metric that every evaluation shows: the bytes of the executable sections."""

EXTREMES = 10
"""Default length of a list of the largest changes."""


@dataclass(frozen=True, slots=True)
class Change:
    """A metric against its baseline, module by module; smaller is better.

    Attributes:
        pairs: Value and baseline of each module.
        clusters: Project of each module, by which intervals are clustered. Default: one project per module.
    """

    pairs: tuple[tuple[float, float], ...]
    clusters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.clusters:
            object.__setattr__(self, "clusters", tuple(map(str, range(len(self.pairs)))))

    @property
    def value(self) -> float:
        """Sum of the values."""
        return sum(value for value, _ in self.pairs)

    @property
    def baseline(self) -> float:
        """Sum of the baselines."""
        return sum(baseline for _, baseline in self.pairs)

    @property
    def total(self) -> float:
        """Relative change of the sum: -0.02 is 2 % less; 0 if the baselines add up to 0."""
        return self.value / self.baseline - 1.0 if self.baseline else 0.0

    @property
    def logarithms(self) -> tuple[float, ...]:
        """`log((1 + value) / (1 + baseline))` of each module; the ones keep it finite for a cost of 0."""
        return tuple(math.log((1.0 + value) / (1.0 + baseline)) for value, baseline in self.pairs)

    @property
    def mean(self) -> float:
        """Relative change of the geometric mean over modules: -0.02 is 2 % less."""
        logarithms = self.logarithms
        return math.expm1(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0

    @property
    def better(self) -> int:
        """Number of modules with a value below the baseline."""
        return sum(value < baseline for value, baseline in self.pairs)

    @property
    def worse(self) -> int:
        """Number of modules with a value above the baseline."""
        return sum(value > baseline for value, baseline in self.pairs)

    @property
    def equal(self) -> int:
        """Number of modules with the value of the baseline."""
        return sum(value == baseline for value, baseline in self.pairs)


@dataclass(frozen=True, slots=True)
class Extreme:
    """A module with one of the largest changes, the policy's value and the baseline."""

    module: str
    value: float
    baseline: float

    @property
    def change(self) -> float:
        """Relative change: -0.02 is 2 % less."""
        return math.expm1(math.log((1.0 + self.value) / (1.0 + self.baseline)))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {**asdict(self), "change": self.change}


def extremes(modules: Sequence[str], change: Change, limit: int = EXTREMES) -> tuple[list[Extreme], list[Extreme]]:
    """Return the modules with the largest relative reductions, and those with the largest increases, largest first."""
    rows = sorted(
        (Extreme(name, *pair) for name, pair in zip(modules, change.pairs, strict=True)),
        key=lambda row: (-abs(row.change), row.module),
    )
    smaller = [row for row in rows if row.value < row.baseline]
    return smaller[:limit], [row for row in rows if row.value > row.baseline][:limit]


@dataclass(frozen=True, slots=True)
class Summary:
    """The episodes of a policy on modules with decisions.

    Attributes:
        policy: Name of the policy.
        names: Names of the finished modules, in the order of the pairs of `changes`.
        failures: Number of failed episodes.
        illegal_actions: Number of illegal actions.
        seconds: Total duration of the episodes.
        policy_seconds: Total CPU time of the policy.
        decisions: Number of decisions that `policy_seconds` covers.
        changes: Change of each metric, by metric.
    """

    policy: str
    names: tuple[str, ...]
    failures: int
    illegal_actions: int
    seconds: float
    policy_seconds: float
    decisions: int
    changes: dict[str, Change]

    @property
    def modules(self) -> int:
        """Number of finished modules."""
        return len(self.names)


def without_decisions(episodes: Iterable[EpisodeResult]) -> list[str]:
    """Return the names of the modules without decisions, sorted."""
    return sorted({episode.module for episode in episodes if episode.status == NO_DECISIONS})


def summarize(policy: str, episodes: Sequence[EpisodeResult], metrics: Sequence[str]) -> Summary:
    """Return the summary of a policy over the modules with decisions; `episodes` has those of all policies."""
    excluded = set(without_decisions(episodes))
    ours = [each for each in episodes if each.policy == policy and each.module not in excluded]
    done = sorted((each for each in ours if each.status == DONE), key=lambda each: each.module)
    projects = tuple(each.project for each in done)
    return Summary(
        policy,
        names=tuple(each.module for each in done),
        failures=sum(each.status == FAILED for each in ours),
        illegal_actions=sum(each.illegal_actions for each in ours),
        seconds=math.fsum(each.seconds for each in ours),
        policy_seconds=math.fsum(each.policy_seconds for each in ours),
        decisions=sum(each.decisions for each in ours if each.policy_seconds),
        changes={name: Change(tuple(each.metrics[name] for each in done), projects) for name in metrics},
    )
