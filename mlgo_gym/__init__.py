"""Gymnasium environments in which an agent makes the optimisation decisions of a stock, released clang.

Importing this package registers them: see `ENVIRONMENTS`.
"""

import gymnasium as _gymnasium

__version__ = "0.1.0"

ENVIRONMENTS = {
    "mlgo/Inline-v0": "mlgo_gym.envs.inline:InlineEnv",
    "mlgo/InlineIR2Vec-v0": "mlgo_gym.envs.inline_ir2vec:InlineIR2VecEnv",
    "mlgo/Joint-v0": "mlgo_gym.envs.joint:JointEnv",
    "mlgo/RegAllocEvict-v0": "mlgo_gym.envs.regalloc_evict:RegAllocEvictEnv",
    "mlgo/RegAllocPriority-v0": "mlgo_gym.envs.regalloc_priority:RegAllocPriorityEnv",
}
"""The registered environments: id and entry point."""

for _id, _entry_point in ENVIRONMENTS.items():
    if _id not in _gymnasium.registry:
        _gymnasium.register(id=_id, entry_point=_entry_point)
