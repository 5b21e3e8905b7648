"""Gymnasium environments in which an agent makes the optimisation decisions of a stock, released clang.

Importing this package registers them: see `ENVIRONMENTS`.
"""

from pathlib import Path as _Path

import gymnasium as _gymnasium

__version__ = "0.1.0"

ENVIRONMENTS = {
    "mlgo/Inline-v0": "mlgo_gym.envs.inline:Inline",
    "mlgo/InlineIR2Vec-v0": "mlgo_gym.envs.inline_ir2vec:InlineIR2Vec",
    "mlgo/Joint-v0": "mlgo_gym.envs.joint:Joint",
    "mlgo/RegAllocEvict-v0": "mlgo_gym.envs.regalloc_evict:RegAllocEvict",
    "mlgo/RegAllocPriority-v0": "mlgo_gym.envs.regalloc_priority:RegAllocPriority",
}
"""The registered environments: id, and where its classes are: this name with `Env`, and with `VectorEnv`."""

for _id, _stem in ENVIRONMENTS.items():
    if _id not in _gymnasium.registry:
        _gymnasium.register(id=_id, entry_point=f"{_stem}Env", vector_entry_point=f"{_stem}VectorEnv")

# In a checkout the folder of `mlgo_gym.envs` lies beside this one: a Python started there finds it too.
_here = _Path(__file__).parent
if not (_here / "envs").exists():
    __path__.append(str(_here.parent))
