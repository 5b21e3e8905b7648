"""Wrappers around one environment; those around many at once are in `mlgo_gym.wrappers.vector`, as in Gymnasium."""

from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.policies.observation_samples import fit_normalization
from mlgo_gym.wrappers.credit_rewards import CreditRewards, decision_rewards
from mlgo_gym.wrappers.normalize_features import NormalizeFeatures

__all__ = ["CreditRewards", "Normalization", "NormalizeFeatures", "decision_rewards", "fit_normalization"]
