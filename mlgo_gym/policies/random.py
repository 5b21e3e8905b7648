"""The policy `random`: a legal action drawn at random, the same ones for the same module and seed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from mlgo_gym.env import CompilerEnv


class RandomPolicy:
    """Draws uniformly among the legal actions, or from the action space where all are legal.

    Each episode draws from a generator seeded by the seed and the module's name, so that its actions depend neither
    on the order of the modules nor on how many processes share them.

    Args:
        env: the environment; its action space is copied, and never drawn from.
        seed: what the draws depend on.
    """

    def __init__(self, env: CompilerEnv, seed: int = 0) -> None:
        self._space = copy.deepcopy(env.action_space)
        self._seed = seed

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the interface of a policy
        """Return a random action; one of those that `info["action_mask"]` allows, where there is a mask."""
        if info["decision"] == 0:
            digest = hashlib.sha256(f"{self._seed}:{info['module']}".encode(errors="surrogateescape")).digest()
            self._space.seed(int.from_bytes(digest[:4], "little"))
        mask = info.get("action_mask")
        return self._space.sample() if mask is None else self._space.sample(mask)
