"""The environments: one file each."""

from mlgo_gym.envs.inline import InlineEnv
from mlgo_gym.envs.regalloc_evict import RegAllocEvictEnv
from mlgo_gym.envs.regalloc_priority import RegAllocPriorityEnv

__all__ = ["InlineEnv", "RegAllocEvictEnv", "RegAllocPriorityEnv"]
