"""Episodes under a policy."""

from __future__ import annotations

from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies import Policy


def play(env: CompilerEnv, policy: Policy, module: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the actions of an episode, and its last info; an illegal action is a failure."""
    observation, info = env.reset(options={"module": module})
    actions = []
    while True:
        actions.append(policy.act(observation, info))
        assert env.action_space.contains(actions[-1]) or actions[-1] in (0, 1)
        observation, _, terminated, truncated, info = env.step(actions[-1])
        assert not info.get("illegal_action")
        assert not truncated, info
        if terminated:
            return actions, info
