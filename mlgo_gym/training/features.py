"""What the teacher and the network see of an inlining decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.policies.normalization import feature_columns

DEFAULT = "inlining_default"
"""The feature that says what clang itself would do."""

COST = "cost_estimate"
"""The feature that says what inlining is estimated to cost, a whole number of LLVM's inline-cost units."""

LEFT_OUT = frozenset({"node_count", "edge_count", "is_callee_avail_external", "is_caller_avail_external"})
"""Features that identify the module, and features that never vary within one compile."""

Matrix = npt.NDArray[Any]


def raw_features(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the given features that a network sees."""
    return tuple(name for name in names if name not in LEFT_OUT)


def teacher_features(names: Sequence[str], observations: Matrix) -> npt.NDArray[np.float64]:
    """Return what trees see: the signed logarithms of the raw features, and relations that no single split expresses.

    Args:
        names: the features, in the order of the columns.
        observations: shape (decisions, features).

    Returns:
        float64 of shape (decisions, raw features + 7).
    """
    columns = feature_columns("the teacher", raw_features(names), names)
    values = np.asarray(observations, np.float64)

    def column(name: str) -> npt.NDArray[np.float64]:
        return values[:, feature_columns("the teacher", [name], names)[0]]

    above = column("cost_estimate") - column("threshold")
    relations = np.stack(
        [
            above,
            column("cost_estimate") + column("last_call_to_static_bonus"),
            column("unsimplified_common_instructions") - column("simplified_instructions"),
            column("callsite_cost") + column("call_penalty"),
        ],
        axis=1,
    )
    logarithms = np.concatenate([values[:, columns], relations], axis=1)
    flags = [np.clip(above, -150, 150) / 30, column("callee_users") == 1, column("last_call_to_static_bonus") != 0]
    return np.concatenate([np.sign(logarithms) * np.log1p(np.abs(logarithms)), np.stack(flags, axis=1)], axis=1)
