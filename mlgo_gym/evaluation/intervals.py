"""Statistics of a change with bootstrap intervals, paired by module and clustered by project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.evaluation.summary import Change

Interval = tuple[float, float]
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
"""int64 of shape (samples, modules): how often each module was drawn."""

CONFIDENCE = 0.95
TRIM = 0.25
"""Fraction of the modules that the interquartile mean excludes at either end."""

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
    def interval(self) -> Interval | None:
        """Both ends; None for fewer than two modules."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Estimates:
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

    def to_json(self) -> dict[str, dict[str, float | None]]:
        """Return JSON-able data."""
        return {name: asdict(getattr(self, name)) for name in self.__slots__}


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

    found = statistics(np.ones((1, count), np.int64))[0]
    if count < 2:
        return Estimates(*map(Estimate, found.tolist()))
    bounds = interval_of(np.concatenate([statistics(counts) for counts in samples(change.clusters)]))
    return Estimates(*(Estimate(*each) for each in zip(found.tolist(), *bounds.tolist(), strict=True)))


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
    kept = np.clip(ends, cut, total - cut) - np.clip(ends - counts[:, order], cut, total - cut)
    means: Floats = kept @ values[order] / kept.sum(axis=1)
    return means


class Profile(NamedTuple):
    """Performance profile: the fraction of modules that a policy reduces by more than each threshold.

    It is the run-score distribution of Agarwal et al. 2021; the score is the relative reduction of a module. If one
    profile is above another everywhere, its policy is better on every quantile of the modules.

    Attributes:
        shares: Fraction for each threshold.
        interval: Lower and upper ends of pointwise 95 % intervals; None for fewer than two modules.
    """

    shares: list[float]
    interval: tuple[list[float], list[float]] | None = None


def profile(change: Change, thresholds: Sequence[float]) -> Profile:
    """Return the performance profile of a change of at least one module, at relative reductions.

    A negative threshold also admits modules that grew by less.
    """
    above = (-np.expm1(np.asarray(change.logarithms)))[:, None] > np.asarray(thresholds)[None, :]
    shares = above.mean(axis=0).tolist()
    if len(above) < 2:
        return Profile(shares)
    low, high = _ends_of_means(above, change.clusters).tolist()
    return Profile(shares, (low, high))


def mean_with_interval(values: Floats, clusters: tuple[str, ...]) -> Estimate:
    """Return the mean of one value per module, such as 1 for a win; the clusters are the projects of the modules."""
    if len(values) < 2:
        return Estimate(float(values.mean()) if len(values) else 0.0)
    low, high = _ends_of_means(values[:, None], clusters)[:, 0].tolist()
    return Estimate(float(values.mean()), low, high)


def _ends_of_means(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_], clusters: Sequence[str]) -> Floats:
    """Return the ends of the intervals of the means of columns, float64 of shape (2, columns)."""
    means = [counts @ values / counts.sum(axis=1, keepdims=True) for counts in samples(clusters)]
    return interval_of(np.concatenate(means))


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
            each = drawn[:, number] * size
            counts[:, modules] = each[:, None] if size == 1 else generator.multinomial(each, np.full(size, 1 / size))
        yield counts


def interval_of(statistics: Floats) -> Floats:
    """Return the ends of the percentile interval of samples: float64 of shape (2, …) for shape (samples, …)."""
    tail = (1 - CONFIDENCE) / 2
    ends: Floats = np.quantile(statistics, [tail, 1 - tail], axis=0)
    return ends
