"""The policy `never_evict`: evict nothing, unless something must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies.fitting import check_advisor


class NeverEvictPolicy:
    """Leaves every register to whoever has it; the candidate is split or spilled instead.

    Args:
        env: the environment; it asks about evictions.

    Raises:
        PolicyError: it does not.
    """

    def __init__(self, env: CompilerEnv) -> None:
        check_advisor("never_evict", env, EVICTION)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the interface of a policy
        """Return the last index, "evict nothing", where it is legal, else clang's own choice."""
        mask = info["action_mask"]
        return len(mask) - 1 if mask[-1] else info["default_action"]
