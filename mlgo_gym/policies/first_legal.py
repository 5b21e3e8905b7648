"""The policy `first_legal`: the first action that the mask allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies.fitting import check_advisor


class FirstLegalPolicy:
    """Takes the first register in allocation order that may be had, at whatever price.

    Args:
        env: the environment; it asks about evictions.

    Raises:
        PolicyError: it does not.
    """

    def __init__(self, env: CompilerEnv) -> None:
        check_advisor("first_legal", env, EVICTION)

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:  # noqa: ARG002 - the interface of a policy
        """Return the lowest index whose `info["action_mask"]` is 1."""
        return int(np.argmax(info["action_mask"]))
