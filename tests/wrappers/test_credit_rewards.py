"""Credit in environments: contexts in every info, and rewards for each decision that add up to the episode's."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.envs.inline import InlineVectorEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.wrappers.credit_rewards import CreditRewards
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


@pytest.mark.parametrize("reward", ["relative", "bytes", "log"])
def test_rewards_add_up_to_that_of_the_episode(bitcode: Path, reward: str) -> None:
    env = CreditRewards(InlineEnv(corpus=str(bitcode), credit=True, reward=reward))
    generator = random.Random(4)
    _, info = env.reset(seed=0)
    assert info["context"]
    ended, steps, total = False, 0, 0.0
    while not ended:
        assert "rewards" not in info
        action = info["default_action"] ^ (generator.random() < 0.3)
        _, total, ended, _, info = env.step(int(action))
        steps += 1
    assert info["rewards"].shape == (steps,)
    assert info["rewards"].sum() == pytest.approx(total)
    assert np.count_nonzero(info["rewards"]) > 1
    assert sum(info["credit"]) == pytest.approx(info["baseline_text"] - info["text"])
    assert sum(info["function_sizes"].functions.values()) + info["function_sizes"].unnamed == info["text"]
    env.close()


def test_contexts_say_where_a_call_stands(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), credit=True)
    _, info = env.reset(seed=0)
    places = []
    ended = False
    while not ended:
        places.append(info["site"])
        _, _, ended, _, info = env.step(info["default_action"])
    assert len(set(places)) == len(places)
    assert {place[0] for place in places} > {"middle", "widest"}
    env.close()


def test_environments_at_the_same_time_have_the_same_places(bitcode: Path) -> None:
    envs = InlineVectorEnv(num_envs=2, corpus=str(bitcode), credit=True)
    _, infos = envs.reset(seed=0)
    for _ in range(5):
        assert infos["context"][0] == infos["context"][1] != ""
        assert infos["site"][0] == infos["site"][1]
        _, _, _, _, infos = envs.step(infos["default_action"])
    envs.close()


def test_a_fork_has_the_credit_of_its_own_decisions(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), credit=True)
    _, info = env.reset(seed=0)
    _, _, _, _, info = env.step(info["default_action"])
    copied = env.fork()
    for each, flip in ((copied, 1), (env, 0)):
        action, ended, last = info["default_action"] ^ flip, False, info
        while not ended:
            _, _, ended, _, last = each.step(action)
            action = last.get("default_action")
        assert any(last["credit"]) == bool(flip)
        assert sum(last["credit"]) == pytest.approx(last["baseline_text"] - last["text"])
    copied.close()
    env.close()


def test_what_has_no_credit_is_refused(bitcode: Path) -> None:
    with pytest.raises(MlgoError, match="unexpected keyword argument 'credit'"):
        RegAllocEvictEnv(corpus=str(bitcode), credit=True)
    env = InlineEnv(corpus=str(bitcode))
    with pytest.raises(MlgoError, match="expected an environment made with credit=True"):
        CreditRewards(env)
    env.close()
