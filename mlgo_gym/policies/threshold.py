"""The policy `threshold`: inline what is estimated to cost less than a number, as inliners did before learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.features import feature_reader
from mlgo_gym.policies.fitting import check_yes_or_no


class ThresholdPolicy:
    """Inlines a call where its `cost_estimate` is below a threshold.

    The estimate is that of `getInliningCostEstimate` (llvm/lib/Analysis/InlineCost.cpp), in LLVM's inline-cost units:
    5 for an instruction, and less than 0 where the call itself costs more than the callee's body.

    Args:
        env: the environment; its actions are no and yes, and it has the feature `cost_estimate`.
        threshold: the threshold, in inline-cost units.

    Raises:
        PolicyError: the environment is another.
    """

    def __init__(self, env: CompilerEnv, threshold: float = 0.0) -> None:
        check_yes_or_no("threshold", env)
        self._cost = feature_reader("threshold", env, "cost_estimate")
        self._threshold = threshold

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:  # noqa: ARG002 - the interface of a policy
        """Return 1 (inline) where the estimated cost is below the threshold, else 0."""
        return int(self._cost(observation) < self._threshold)
