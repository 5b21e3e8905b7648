"""Two policies on the same modules: how often one beats the other, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlgo_gym.evaluation.intervals import Estimate, Estimates, estimates, mean_with_interval
from mlgo_gym.evaluation.summary import Change


@dataclass(frozen=True)
class Pair:
    """One policy against another on the modules that both finished.

    Attributes:
        first: the name of the one.
        second: the name of the other.
        modules: the modules' names.
        change: the first one's value against the second's, module by module; smaller is better.
    """

    first: str
    second: str
    modules: tuple[str, ...]
    change: Change

    @cached_property
    def estimates(self) -> Estimates:
        """The statistics of the change from the second to the first, with intervals."""
        return estimates(self.change)

    @cached_property
    def probability(self) -> Estimate:
        """The probability that the first is better than the second on a module drawn at random; a tie counts half.

        This is the probability of improvement of Agarwal et al. 2021, the Mann-Whitney statistic of the runs of each
        task, averaged over tasks; here a task is a module with one run, as equal decisions give equal bytes.
        """
        wins = [(value < other) + 0.5 * (value == other) for value, other in self.change.pairs]
        return mean_with_interval(np.asarray(wins, float), self.change.clusters)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        counts = {name: getattr(self.change, name) for name in ("better", "equal", "worse")}
        probability = {"value": self.probability.value, "low": self.probability.low, "high": self.probability.high}
        return {
            "first": self.first,
            "second": self.second,
            "modules": len(self.modules),
            **counts,
            "probability": probability,
            **self.estimates.to_json(),
        }


def pair_of(
    first: str,
    second: str,
    values: tuple[Mapping[str, float], Mapping[str, float]],
    projects: Mapping[str, str],
) -> Pair:
    """Return one policy against another.

    Args:
        first: the name of the one.
        second: the name of the other.
        values: what counts of each by the names of the modules.
        projects: the project of each module.
    """
    ours, theirs = values
    modules = tuple(sorted(ours.keys() & theirs.keys()))
    pairs = tuple((ours[name], theirs[name]) for name in modules)
    return Pair(first, second, modules, Change(pairs, tuple(projects[name] for name in modules)))
