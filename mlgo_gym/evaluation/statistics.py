"""Changes of a metric over modules: sums, means, and bootstrap intervals, paired by module and clustered by project."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
"""int64 of shape (samples, modules): how often each module was drawn."""

CONFIDENCE = 0.95
TRIM = 0.25
"""Fraction of the modules that the interquartile mean excludes at either end."""

TEXT = "text"
"""The metric that every evaluation shows: the bytes of the executable sections."""

DEFAULT = "default"
"""The policy that takes clang's own decisions."""

EXTREMES = 10
"""Length of a list of the largest changes."""

_MAX_SAMPLES, _MIN_SAMPLES = 9999, 1000
_DRAWS = 5_000_000
"""Modules drawn in all samples of an interval, about a second of work."""
_CELLS = 1_000_000
"""Counts in memory at a time."""
_SEED = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and the ends of its 95 % interval, which are None for fewer than two modules."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None for fewer than two modules."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Extreme(NamedTuple):
    """A module with one of the largest changes, its value and its baseline."""

    module: str
    value: float
    baseline: float

    @property
    def change(self) -> float:
        """Relative change: -0.02 is 2 % less."""
        return (1.0 + self.value) / (1.0 + self.baseline) - 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """A metric against its baseline, module by module; smaller is better.

    Attributes:
        pairs: Value and baseline of each module.
        clusters: Project of each module, by which intervals are clustered. Default: one project per module.
        modules: Names of the modules. Default: their indices.
    """

    pairs: tuple[tuple[float, float], ...]
    clusters: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("clusters", "modules"):
            if not getattr(self, name):
                object.__setattr__(self, name, tuple(map(str, range(len(self.pairs)))))

    @classmethod
    def between(cls, values: Mapping[str, float], others: Mapping[str, float], projects: Mapping[str, str]) -> Change:
        """Return the change from one policy to another by their metric of each module, over the modules of both."""
        modules = tuple(sorted(values.keys() & others.keys()))
        pairs = tuple((values[name], others[name]) for name in modules)
        return cls(pairs, tuple(projects[name] for name in modules), modules)

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
        return len(self.pairs) - self.better - self.worse

    @property
    def probability(self) -> Estimate:
        """Probability that the value is smaller on a module drawn at random; a tie counts half.

        It is the probability of improvement of Agarwal et al. 2021: the Mann-Whitney statistic of the runs of each
        task, averaged over tasks. A module corresponds to a task with one run, because a compile is deterministic.
        """
        wins = [(value < other) + 0.5 * (value == other) for value, other in self.pairs]
        values = np.asarray(wins, float)
        if len(values) < 2:
            return Estimate(float(values.mean()) if len(values) else 0.0)
        low, high = _ends(self.clusters, lambda counts: (counts @ values / counts.sum(axis=1))[:, None])
        return Estimate(float(values.mean()), *low, *high)

    def extremes(self) -> tuple[list[Extreme], list[Extreme]]:
        """Return the modules with the largest relative reductions, and those with the largest increases."""
        rows = [Extreme(name, *pair) for name, pair in zip(self.modules, self.pairs, strict=True)]
        rows.sort(key=lambda row: (-abs(row.change), row.module))
        smaller = [row for row in rows if row.value < row.baseline]
        return smaller[:EXTREMES], [row for row in rows if row.value > row.baseline][:EXTREMES]

    def to_json(self) -> dict[str, Any]:
        """Return sums, counts and statistics as JSON-able data."""
        counts = {name: getattr(self, name) for name in ("value", "baseline", "better", "worse", "equal")}
        return counts | {name: asdict(estimate) for name, estimate in estimates(self)._asdict().items()}

    def comparison_json(self) -> dict[str, Any]:
        """Return `to_json()` with the number of modules and the probability, for the change between two policies."""
        return {"modules": len(self.pairs), "probability": asdict(self.probability), **self.to_json()}

    def extremes_json(self) -> dict[str, Any]:
        """Return the largest changes as JSON-able data, by `best` and `worst`."""
        named = zip(("best", "worst"), self.extremes(), strict=True)
        return {name: [{**row._asdict(), "change": row.change} for row in rows] for name, rows in named}


@dataclass(frozen=True, slots=True)
class Summary:
    """The episodes of a policy on modules with decisions.

    Attributes:
        policy: Name of the policy.
        modules: Number of finished modules.
        failures: Number of failed episodes.
        illegal_actions: Number of illegal actions.
        seconds: Total duration of the episodes.
        policy_seconds: Total CPU time of the policy.
        decisions: Number of decisions that `policy_seconds` covers.
        changes: Change of each metric over the finished modules, by metric.
    """

    policy: str
    modules: int
    failures: int
    illegal_actions: int
    seconds: float
    policy_seconds: float
    decisions: int
    changes: dict[str, Change]


class Estimates(NamedTuple):
    """Statistics of a change: relative changes, where -0.02 is 2 % less.

    They follow Agarwal et al. 2021 (Deep RL at the Edge of the Statistical Precipice). A module corresponds to a task
    with a single run, because a compile is deterministic. The intervals cover the choice of projects and modules.

    Attributes:
        total: Change of the sum over all modules.
        mean: Change of the geometric mean over modules.
        interquartile: Change of the geometric mean over the middle half of the modules. A single outlier does not move
            it.
    """

    total: Estimate
    mean: Estimate
    interquartile: Estimate


@lru_cache(maxsize=1024)
def estimates(change: Change) -> Estimates:
    """Return the statistics of a change with their intervals."""
    count = len(change.pairs)
    if not count:
        return Estimates(Estimate(0.0), Estimate(0.0), Estimate(0.0))
    values, baselines = (np.asarray(column, float) for column in zip(*change.pairs, strict=True))
    logarithms = np.asarray(change.logarithms)

    def statistics(counts: Counts) -> Floats:
        ours, theirs = counts @ values, counts @ baselines
        total = np.divide(ours, theirs, out=np.ones_like(ours), where=theirs != 0) - 1
        mean = np.expm1(counts @ logarithms / counts.sum(axis=1))
        return np.stack([total, mean, np.expm1(trimmed_means(logarithms, counts))], axis=1)

    points = statistics(np.ones((1, count), np.int64))[0].tolist()
    if count < 2:
        return Estimates(*map(Estimate, points))
    return Estimates(*map(Estimate, points, *_ends(change.clusters, statistics)))


def trimmed_means(values: Floats, counts: Counts) -> Floats:
    """Return the trimmed mean of each sample, as `scipy.stats.trim_mean` defines it.

    Args:
        values: float64 of shape (modules,).
        counts: How often each module is in each sample.

    Returns:
        float64 of shape (samples,).
    """
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(counts[:, order], axis=1)
    total = ends[:, -1:]
    cut = (TRIM * total).astype(np.int64)
    inside = np.clip(ends, cut, total - cut) - np.clip(ends - counts[:, order], cut, total - cut)
    means: Floats = inside @ values[order] / inside.sum(axis=1)
    return means


def profile(
    change: Change, thresholds: Floats | Sequence[float]
) -> tuple[list[float], tuple[list[float], list[float]] | None]:
    """Return the performance profile of a change of some modules: the share that shrinks by more than each threshold.

    It is the run-score distribution of Agarwal et al. 2021; the score is the relative reduction of a module. If one
    profile is above another everywhere, its policy is better on every quantile of the modules. A negative threshold
    also admits modules that grew by less.

    Returns:
        The share for each threshold; lower and upper ends of pointwise 95 % intervals, None for fewer than two modules.
    """
    above = (-np.expm1(np.asarray(change.logarithms)))[:, None] > np.asarray(thresholds)[None, :]
    shares = above.mean(axis=0).tolist()
    if len(above) < 2:
        return shares, None
    low, high = _ends(change.clusters, lambda counts: counts @ above / counts.sum(axis=1, keepdims=True))
    return shares, (low, high)


def _ends(clusters: Sequence[str], statistics: Callable[[Counts], Floats]) -> list[list[float]]:
    """Return the low and the high ends of percentile intervals of statistics; these have one row per sample."""
    drawn = np.concatenate([statistics(counts) for counts in samples(clusters)])
    tail = (1 - CONFIDENCE) / 2
    ends: list[list[float]] = np.quantile(drawn, [tail, 1 - tail], axis=0).tolist()
    return ends


def samples(clusters: Sequence[str]) -> Iterator[Counts]:
    """Yield bootstrap samples in batches; equal clusters give equal samples.

    Projects are drawn with replacement, then modules from each drawn project (Davison and Hinkley 1997, Bootstrap
    Methods and their Application, section 3.8). Modules of a project are alike: drawn independently, they would give
    intervals that are too narrow. A single project has only its modules drawn. `scipy.stats.bootstrap` has no clusters.
    """
    names, numbers = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    members = [np.flatnonzero(numbers == number) for number in range(len(names))]
    total = len(clusters)
    generator = np.random.default_rng(_SEED)
    required = min(_MAX_SAMPLES, max(_MIN_SAMPLES, _DRAWS // max(total, 1)))
    batch = max(1, _CELLS // max(total, 1))
    for start in range(0, required, batch):
        rows = min(batch, required - start)
        drawn = generator.multinomial(len(members), np.full(len(members), 1 / len(members)), size=rows)
        counts: Counts = np.zeros((rows, total), np.int64)
        for number, modules in enumerate(members):
            size = len(modules)
            # A project that was drawn twice gives twice as many draws of its modules.
            draws = drawn[:, number] * size
            counts[:, modules] = draws[:, None] if size == 1 else generator.multinomial(draws, np.full(size, 1 / size))
        yield counts
