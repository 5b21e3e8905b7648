"""Two policies on the same modules: how often the first beats the second, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo_gym.evaluation.intervals import Estimate, Estimates, estimates, mean_with_interval
from mlgo_gym.evaluation.summary import Change


@dataclass(frozen=True)
class Pair:
    """One policy against another, module by module; smaller values of the change are better for the first."""

    first: str
    second: str
    modules: tuple[str, ...]
    change: Change

    @cached_property
    def estimates(self) -> Estimates:
        """Statistics of the change from the second policy to the first, with intervals."""
        return estimates(self.change)

    @cached_property
    def probability(self) -> Estimate:
        """Probability that the first policy is better on a module drawn at random; a tie counts half.

        It is the probability of improvement of Agarwal et al. 2021: the Mann-Whitney statistic of the runs of each
        task, averaged over tasks. A module corresponds to a task with one run, because a compile is deterministic.
        """
        wins = [(value < other) + 0.5 * (value == other) for value, other in self.change.pairs]
        return mean_with_interval(np.asarray(wins, float), self.change.clusters)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {
            "first": self.first,
            "second": self.second,
            "modules": len(self.modules),
            **{name: getattr(self.change, name) for name in ("better", "equal", "worse")},
            "probability": asdict(self.probability),
            **self.estimates.to_json(),
        }


def pair_of(
    first: str,
    second: str,
    values: tuple[Mapping[str, float], Mapping[str, float]],
    projects: Mapping[str, str],
) -> Pair:
    """Return one policy against another, by the metric of both by module, and the project of each module."""
    ours, theirs = values
    modules = tuple(sorted(ours.keys() & theirs.keys()))
    pairs = tuple((ours[name], theirs[name]) for name in modules)
    return Pair(first, second, modules, Change(pairs, tuple(projects[name] for name in modules)))
