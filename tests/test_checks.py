"""Every environment passes the checks that authors of other environments can call, and the checks find faults."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.testing import check_environment, check_vector_environment

INLINE, BANDIT = "mlgo/Inline-v0", "mlgo/InlineBandit-v0"

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def own_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `TimeLimit` of Gymnasium; rl_zoo3 replaces it, once imported, by one that does not truncate at an end."""
    kinds = gym.wrappers.TimeLimit.mro()
    own = next(kind for kind in kinds if kind.__module__.startswith("gymnasium."))
    for module in (gym.wrappers, gym.wrappers.common):
        monkeypatch.setattr(module, "TimeLimit", own)


@pytest.mark.parametrize("name", mlgo_gym.APPROXIMATIONS)
def test_an_approximation_keeps_the_rules_of_gymnasium_and_stable_baselines3(name: str) -> None:
    check_environment(name)


@pytest.mark.parametrize("name", mlgo_gym.ENVIRONMENTS)
def test_a_vector_environment_equals_that_of_gymnasium_in_every_mode(name: str, varied: str) -> None:
    short = {"corpus": varied, "max_decisions": 4, "render_mode": "ansi"}
    arguments: dict[str, Any] = {} if name in mlgo_gym.APPROXIMATIONS else short
    assert check_vector_environment(name, **arguments) >= 12


def test_an_environment_of_gymnasium_itself_passes_without_refusals() -> None:
    with pytest.raises(AssertionError, match="for the option 'no such option', got none"):
        check_environment("CartPole-v1")
    check_environment("CartPole-v1", check_refusals=False)


@pytest.mark.usefixtures("own_time_limit")
@pytest.mark.parametrize("limit", [2, 4])
def test_a_time_limit_of_a_vector_environment_is_that_of_gymnasium(limit: int, varied: str) -> None:
    """With 4 the limit and the end of the episode are at the same step."""
    cases: list[tuple[str, dict[str, Any]]] = [(INLINE, {"corpus": varied, "max_decisions": 4}), (BANDIT, {})]
    for name, options in cases:
        assert check_vector_environment(name, steps=10, max_episode_steps=limit, **options) >= 12
    assert check_vector_environment(BANDIT, steps=10, max_episode_steps=1) >= 12


class Faulty(gym.Env[Any, Any]):
    """Ends after three steps; one of its methods has a fault."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault: str = "") -> None:
        self.fault, self.steps = fault, 3

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        if options and self.fault != "options":
            raise ValueError(options)
        self.steps = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        chance = np.random.default_rng() if self.fault == "random" else self.np_random
        return chance.random(2, np.float32) + (2 * self.steps if self.fault == "space" else 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take any action."""
        if self.steps == 3 and self.fault != "end":
            raise ValueError(action)
        self.steps += 1
        reward = np.nan if self.fault == "reward" else 0.0
        return self._observe(), reward, self.steps >= 3, False, {}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("options", r"expected an error of reset\(\) for the option"),
        ("end", r"expected an error of step\(\) after the end"),
        ("reward", "expected a finite reward, got nan"),
        ("space", "expected an observation of the space"),
        ("random", "deterministic|expected a second episode|same seed"),
    ],
)
def test_a_fault_is_found(fault: str, message: str) -> None:
    check_environment(Faulty())
    with pytest.raises(AssertionError, match=message):
        check_environment(Faulty(fault))
