"""Ties to other libraries: wrappers, adapters to RL libraries, training logs and datasets of trajectories.

Wrappers around many environments at once are in `mlgo_gym.integrations.vector`. A module that is named after a library
needs that library.
"""

from mlgo_gym.integrations.normalize_features import NormalizeFeatures, fit_normalization
from mlgo_gym.integrations.reduction_log import ReductionLog
from mlgo_gym.integrations.step_rewards import StepRewards
from mlgo_gym.policies.network import Normalization

__all__ = ["Normalization", "NormalizeFeatures", "ReductionLog", "StepRewards", "fit_normalization"]
