"""How sure a change is: bootstrap intervals over modules, paired."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError
from mlgo_gym.evaluation.summary import Change

CONFIDENCE = 0.95
_RESAMPLES = 9999
_BATCH = 500
_SEED = 0

Interval = tuple[float, float]


def intervals_available() -> bool:
    """Return whether scipy, which makes the intervals, is installed."""
    return importlib.util.find_spec("scipy") is not None


def mean_interval(change: Change) -> Interval | None:
    """Return the 95 % interval of `Change.mean`, or None for fewer than two modules.

    Raises:
        MissingExtraError: scipy is not installed.
    """
    interval = _bootstrap([np.asarray(change.logarithms)])
    return None if interval is None else (math.expm1(interval[0]), math.expm1(interval[1]))


def total_interval(change: Change) -> Interval | None:
    """Return the 95 % interval of `Change.total`, or None for fewer than two modules.

    Raises:
        MissingExtraError: scipy is not installed.
    """
    values = [np.asarray(column, float) for column in zip(*change.pairs, strict=True)]
    if not values or not values[1].all():
        return None
    interval = _bootstrap(values)
    return None if interval is None else (interval[0] - 1.0, interval[1] - 1.0)


def _bootstrap(columns: Sequence[npt.NDArray[np.float64]]) -> Interval | None:
    """Return the percentile interval of the mean of one column, or of the ratio of the sums of two."""
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise MissingExtraError("the 95 % intervals", "evaluation") from error
    if columns[0].size < 2:
        return None

    def statistic(*drawn: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
        result = drawn[0].mean(axis=axis) if len(drawn) == 1 else drawn[0].sum(axis=axis) / drawn[1].sum(axis=axis)
        return np.asarray(result)

    # The percentile method also stands the modules being all alike, where others divide by zero.
    interval = stats.bootstrap(
        columns,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=_BATCH,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)
