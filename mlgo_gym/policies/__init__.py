"""Policies: what answers a decision. One file each; `load_policy` finds them by name."""

from mlgo_gym.policies.batching import act_batch
from mlgo_gym.policies.loading import load_policy
from mlgo_gym.policies.protocol import BatchedPolicy, Policy

__all__ = ["BatchedPolicy", "Policy", "act_batch", "load_policy"]
