"""Wrappers around one environment; those around many at once are in `mlgo_gym.wrappers.vector`, as in Gymnasium."""

from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.policies.observation_samples import fit_normalization
from mlgo_gym.wrappers.normalize_features import NormalizeFeatures

__all__ = ["Normalization", "NormalizeFeatures", "fit_normalization"]
