"""`StepRewards`: each decision has its own reward, for learners that cannot read `info["credit"]` at the end."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError


class StepRewards(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Pays after each decision by how much it changed the reward that the episode gets if clang decides the rest.

    The rewards of an episode add up to the reward of its end, so the best policy stays the best. They are exact for any
    task and metric, unlike credit, and a learner needs no change. A decision that equals `info["default_action"]` costs
    nothing. Each other one costs the rest of a compile, in a fork.

    ```python
    env = StepRewards(gym.make("mlgo/Inline-v0", corpus="zstd"))
    ```

    Args:
        env: An environment of mlgo-gym, wrapped or not.

    Raises:
        MlgoError: It is another environment.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        if not isinstance(env.unwrapped, CompilerEnv):
            raise MlgoError(
                f"expected an environment of mlgo-gym, got {type(env.unwrapped).__name__}; omit the wrapper"
            )
        self._inner = env.unwrapped
        self._paid = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; arguments and results are those of the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._paid = 0.0
        self._default = info["default_action"]
        if self._inner.actions:  # a restored state
            self._paid = self._inner.reward_of_default()
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; return observation, reward of this decision, terminated, truncated and info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        is_over = not self._inner.has_decision
        if is_over:
            expected = float(reward)
        elif self._inner.actions[-1] == np.asarray(self._default).item():
            expected = self._paid
        else:
            expected = self._inner.reward_of_default()
        reward, self._paid = expected - self._paid, expected
        self._default = None if is_over else info["default_action"]
        return observation, reward, terminated, truncated, info
