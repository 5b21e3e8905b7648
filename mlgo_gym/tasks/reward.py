"""Rewards: functions of the cost of an episode and of its baseline."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

RewardFunction = Callable[[float, float], float]
"""Takes the outcome and the baseline, both costs (smaller is better), and returns the reward."""


def relative(outcome: float, baseline: float) -> float:
    """Return `(baseline - outcome) / max(baseline, 1)`: 0.02 means 2 % less than the baseline.

    A baseline below 1, such as no spill at all, counts as 1: the result is the difference.
    """
    return (baseline - outcome) / max(baseline, 1.0)


def difference(outcome: float, baseline: float) -> float:
    """Return `baseline - outcome`, in the unit of the metric: bytes, or units of cost."""
    return float(baseline - outcome)


def logarithmic(outcome: float, baseline: float) -> float:
    """Return `log((1 + baseline) / (1 + outcome))`: symmetric, and its sum is a geometric mean's logarithm.

    The ones keep it finite where a cost is 0; on sizes of hundreds of bytes they do not matter.
    """
    return math.log1p((baseline - outcome) / (1.0 + outcome))


WORST = 10.0
"""How many times plain clang's cost an episode may cost more: the reward does not fall further."""


def worst_cost(baseline: float) -> float:
    """Return the cost of a failed compile, and the largest that is rewarded: no policy gains by making clang fail."""
    return baseline + WORST * max(baseline, 1.0)


REWARDS: dict[str, RewardFunction] = {"relative": relative, "bytes": difference, "log": logarithmic}
"""The rewards by the names that environments take."""

_STEP = 1e-6
"""Step, relative to the baseline, that gives the slope of a reward where the cost did not change."""


def decision_rewards(
    saved: npt.NDArray[np.float64], reward: RewardFunction, outcome: float, baseline: float
) -> npt.NDArray[np.float64]:
    """Return the reward of each decision, float64 of shape (decisions,): the cost `saved` in the unit of the reward."""
    if outcome == baseline:
        outcome -= _STEP * max(baseline, 1.0)
    return saved * (reward(outcome, baseline) / (baseline - outcome))
