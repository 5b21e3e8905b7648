"""`StepRewards` pays the reward of an episode decision by decision."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.integrations import StepRewards
from mlgo_gym.testing import check_environment
from tests.envs.test_registered import legal_action
from tests.fakes.compiles import running_compile
from tests.fakes.drive import finish, play
from tests.fakes.stepping import EVICT, INLINE

PRIORITY = "mlgo/RegAllocPriority-v0"

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (INLINE, {}),
        (INLINE, {"credit": True, "reward": "bytes"}),
        (INLINE, {"metric": {"text": 2.0, "object": 1.0}, "info": "numeric"}),
        (EVICT, {"max_decisions": 20}),
        (PRIORITY, {"max_decisions": 20}),
    ],
    ids=str,
)
def test_the_rewards_add_up_to_that_of_the_episode(name: str, options: dict[str, Any], varied: str) -> None:
    chance = np.random.default_rng(1)
    with StepRewards(gym.make(name, corpus=varied, **options)) as env:
        inner: Any = env.unwrapped
        _, info = env.reset(options={"module": "mixed"})

        def choose(info: dict[str, Any]) -> Any:
            other = legal_action(inner, chance)
            return info["default_action"] if chance.random() < 0.5 else other

        steps = finish(env, info, choose)
        actions: list[Any] = list(inner.actions)
    if name == PRIORITY:
        actions = [np.array([action], np.float32) for action in actions]
    alone = play(gym.make(name, corpus=varied, **options), actions, module="mixed")[-1]
    assert sum(step.reward for step in steps) == pytest.approx(alone.reward)
    # The priorities change nothing in this module.
    assert sum(step.reward != 0 for step in steps) > 1 or name == PRIORITY


def test_a_reward_is_the_effect_of_one_decision_if_clang_decides_the_rest(calls: Any) -> None:
    with StepRewards(gym.make(INLINE, corpus=str(calls), reward="bytes")) as env:
        _, info = env.reset()
        number = sum(env.unwrapped.decisions(env.unwrapped.corpus[0]).values())  # type: ignore[attr-defined]
        for flipped in range(number):
            _, info = env.reset()
            rewards = []
            for index in range(number):
                _, reward, *_, info = env.step(info["default_action"] ^ (index == flipped))
                rewards.append(reward)
                if "default_action" not in info:
                    break
            assert rewards == [0.0] * flipped + [info["baseline_text"] - info["text"]] + [0.0] * (
                len(rewards) - flipped - 1
            )


def test_a_failure_and_a_restored_state_keep_the_sum(varied: str) -> None:
    with StepRewards(gym.make(INLINE, corpus=varied, error_reward=-1e4, reward="bytes")) as env:
        inner: Any = env.unwrapped
        _, info = env.reset(options={"module": "calls"})
        paid = 0.0
        for _ in range(3):
            _, reward, *_, info = env.step(1 - info["default_action"])
            paid += reward
        state = inner.state()
        running_compile(env).kill()
        _, reward, terminated, *_ = env.step(0)
        assert paid + reward == pytest.approx(-1e4)
        assert terminated
        _, info = env.reset(options={"state": state})
        rest = finish(env, info)
        assert paid + sum(step.reward for step in rest) == rest[-1].info["baseline_text"] - rest[-1].info["text"]


def test_it_keeps_the_rules_of_gymnasium_and_wraps_no_other_environment(varied: str) -> None:
    with StepRewards(gym.make(INLINE, corpus=varied, max_decisions=4)) as env:
        check_environment(env)
    with pytest.raises(MlgoError, match="expected an environment of mlgo-gym, got CartPoleEnv; omit the wrapper"):
        StepRewards(gym.make("CartPole-v1"))
