"""The environments: one file each."""

from mlgo_gym.envs.inline import InlineEnv
from mlgo_gym.envs.inline_ir2vec import InlineIR2VecEnv
from mlgo_gym.envs.joint import JointEnv
from mlgo_gym.envs.regalloc_evict import RegAllocEvictEnv
from mlgo_gym.envs.regalloc_priority import RegAllocPriorityEnv

__all__ = ["InlineEnv", "InlineIR2VecEnv", "JointEnv", "RegAllocEvictEnv", "RegAllocPriorityEnv"]
