"""The statistics of a change, and how sure each is: bootstrap intervals, paired by module and clustered by project."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mlgo_gym.evaluation.resampling import Counts, interval_of, samples
from mlgo_gym.evaluation.summary import Change

Interval = tuple[float, float]
Floats = npt.NDArray[np.float64]

TRIM = 0.25
"""The part of the modules that the interquartile mean leaves out at either end."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval.

    Attributes:
        value: the number.
        low: the lower end; None where there are fewer than two modules.
        high: the upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> Interval | None:
        """The two ends; None where there are fewer than two modules."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Estimates:
    """The statistics of a change, as Agarwal et al. 2021 (Deep RL at the Edge of the Statistical Precipice) have them.

    All are relative changes: -0.02 is 2 % less. A module is what a task with a single run is there: a compile is the
    same each time, so the intervals are about which projects and modules there are.

    Attributes:
        total: of the sum over all modules.
        mean: of the geometric mean over modules.
        interquartile: of the geometric mean of the middle half of the modules: a single one that vanished does not move
            it as it does the mean, and unlike the median it depends on half of them.
    """

    total: Estimate
    mean: Estimate
    interquartile: Estimate

    def to_json(self) -> dict[str, dict[str, float | None]]:
        """Return JSON-able data."""
        return {name: asdict(getattr(self, name)) for name in self.__slots__}


@lru_cache(maxsize=1024)
def estimates(change: Change) -> Estimates:
    """Return the statistics of a change."""
    count = len(change.pairs)
    if not count:
        return Estimates(Estimate(0.0), Estimate(0.0), Estimate(0.0))
    values, baselines = (np.asarray(column, float) for column in zip(*change.pairs, strict=True))
    logarithms = np.asarray(change.logarithms)

    def three(counts: Counts) -> Floats:
        ours, theirs = counts @ values, counts @ baselines
        total = np.divide(ours, theirs, out=np.ones_like(ours), where=theirs != 0) - 1
        mean = np.expm1(counts @ logarithms / counts.sum(axis=1))
        return np.stack([total, mean, np.expm1(trimmed_means(logarithms, counts))], axis=1)

    found = three(np.ones((1, count), np.int64))[0]
    if count < 2:
        return Estimates(*map(Estimate, found.tolist()))
    bounds = interval_of(np.concatenate([three(counts) for counts in samples(change.clusters)]))
    return Estimates(*(Estimate(*each) for each in zip(found.tolist(), *bounds.tolist(), strict=True)))


def trimmed_means(values: Floats, counts: Counts) -> Floats:
    """Return the mean of what a quarter at either end leaves of each sample, as `scipy.stats.trim_mean` has it.

    Args:
        values: float64 of shape (modules,).
        counts: how often each is in each sample.

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


@dataclass(frozen=True, slots=True)
class Profile:
    """Which part of the modules a policy makes smaller by more than so much: a performance profile.

    It is the run-score distribution of Agarwal et al. 2021, the score being the relative reduction of a module. A
    policy whose profile is above another's everywhere is better on whatever part of the modules one looks at.

    Attributes:
        thresholds: the relative reductions, ascending; below 0 a module may even have grown by less than that.
        shares: the part of the modules that are reduced by more.
        low: the lower ends of pointwise 95 % intervals; None where there are fewer than two modules.
        high: the upper ends.
    """

    thresholds: tuple[float, ...]
    shares: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None


def profile(change: Change, thresholds: tuple[float, ...]) -> Profile:
    """Return the performance profile of a change."""
    above = (-np.expm1(np.asarray(change.logarithms)))[:, None] > np.asarray(thresholds)[None, :]
    shares = tuple(above.mean(axis=0).tolist()) if len(above) else (0.0,) * len(thresholds)
    if len(above) < 2:
        return Profile(thresholds, shares)
    low, high = interval_of(np.concatenate([_means(above, counts) for counts in samples(change.clusters)])).tolist()
    return Profile(thresholds, shares, tuple(low), tuple(high))


def mean_with_interval(values: Floats, clusters: tuple[str, ...]) -> Estimate:
    """Return the mean of a value of each module, such as 1 where one policy beats another."""
    if len(values) < 2:
        return Estimate(float(values.mean()) if len(values) else 0.0)
    drawn = np.concatenate([_means(values[:, None], counts) for counts in samples(clusters)])
    low, high = interval_of(drawn[:, 0]).tolist()
    return Estimate(float(values.mean()), low, high)


def _means(values: npt.NDArray[np.float64] | npt.NDArray[np.bool_], counts: Counts) -> Floats:
    means: Floats = counts @ values / counts.sum(axis=1, keepdims=True)
    return means
