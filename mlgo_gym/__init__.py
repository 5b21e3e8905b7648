"""Gymnasium environments in which an agent makes the optimisation decisions of a stock, released clang.

Importing this package registers them: `mlgo/Inline-v0`.
"""

import gymnasium as _gymnasium

__version__ = "0.1.0"


def _register() -> None:
    for name, entry_point in {"mlgo/Inline-v0": "mlgo_gym.envs.inline:InlineEnv"}.items():
        if name not in _gymnasium.registry:
            _gymnasium.register(id=name, entry_point=entry_point)


_register()
