"""Policies: what answers a decision. One file each; `load_policy` finds them by name."""

from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.protocol import Policy

__all__ = ["Policy", "load_policy"]
