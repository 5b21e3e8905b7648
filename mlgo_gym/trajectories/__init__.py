"""Trajectories: episodes that others can read, and that can be run again."""

from mlgo_gym.trajectories.replay import replay
from mlgo_gym.trajectories.trace import trace
from mlgo_gym.trajectories.validation import validate

__all__ = ["replay", "trace", "validate"]
