"""The policy `never`: no to every question that is answered with yes or no."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.fitting import check_yes_or_no


class NeverPolicy:
    """Answers 0: inline nothing.

    Args:
        env: the environment; its actions are no and yes.

    Raises:
        PolicyError: they are not.
    """

    def __init__(self, env: CompilerEnv) -> None:
        check_yes_or_no("never", env)

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:  # noqa: ARG002 - the interface of a policy
        """Return 0."""
        return 0
