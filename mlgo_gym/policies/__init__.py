"""Policies: rules, networks, models in files. `load_policy` finds them by name."""

from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.protocol import Policy

__all__ = ["Policy", "load_policy"]
