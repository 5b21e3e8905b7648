"""Policies: rules, networks, models in files. `load_policy` finds them by name."""

from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.protocol import BatchedPolicy, Policy, act_batch

__all__ = ["BatchedPolicy", "Policy", "act_batch", "load_policy"]
