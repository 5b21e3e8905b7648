"""Trajectories: episodes as training logs and datasets, and their reproduction."""

from mlgo_gym.trajectories.replay import replay, validate
from mlgo_gym.trajectories.trace import trace

__all__ = ["replay", "trace", "validate"]
