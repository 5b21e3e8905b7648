"""Whether a policy fits an environment, and how it says that it does not."""

from __future__ import annotations

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import Advisor


def misfit(name: str, wanted: str, found: str) -> PolicyError:
    """Return the error that says what a policy wants of an environment and what that has instead."""
    return PolicyError(
        f"the policy {name!r} is for environments with {wanted}, and this one has {found}; choose another policy: "
        "`default` and `random` fit every environment"
    )


def check_yes_or_no(name: str, env: CompilerEnv) -> None:
    """Check that the actions of an environment are no (0) and yes (1).

    Raises:
        PolicyError: they are others.
    """
    space = env.action_space
    if not (isinstance(space, gym.spaces.Discrete) and space.n == 2 and space.start == 0):
        raise misfit(name, "the actions 0 and 1", f"the actions {space}")


def check_advisor(name: str, env: CompilerEnv, advisor: Advisor) -> None:
    """Check that an environment asks about the decisions of one advisor, and of no other.

    Raises:
        PolicyError: it asks about others.
    """
    if env.task.advisors != (advisor,):
        asked = " and ".join(each.name for each in env.task.advisors)
        raise misfit(name, f"decisions on {advisor.name}", f"decisions on {asked}")
