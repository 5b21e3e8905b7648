"""stable-baselines3 and sb3-contrib learn with our environments, alone and in our vector environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.errors import ActionError, MlgoError
from tests.vector.stepping import EVICT, INLINE, end_clang, make

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from mlgo_gym.adapters.sb3 import VecEnvAdapter

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]

assert mlgo_gym

MakeVecEnv = Callable[..., VecEnv]


def adapted(name: str, corpus: str, num_envs: int = 2, **options: Any) -> VecEnvAdapter:
    return VecEnvAdapter(make(name, corpus, num_envs, autoreset_mode="SameStep", **options))


def dummy(name: str, corpus: str, num_envs: int = 2, **options: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda: gym.make(name, corpus=corpus, **options)] * num_envs)


both = pytest.mark.parametrize("make_env", [adapted, dummy])


# Learning


def learn(algorithm: Any, policy: str, env: VecEnv) -> int:
    """Learn for a few hundred steps; return how many episodes ended."""
    model = algorithm(policy, VecMonitor(env), n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu")
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(256)
    assert any(not (old == new).all() for old, new in zip(before, model.policy.parameters(), strict=True))
    assert all(parameter.isfinite().all() for parameter in model.policy.parameters())
    model.env.close()
    return len(model.ep_info_buffer)


@both
def test_ppo_learns_to_inline(make_env: MakeVecEnv, varied: str) -> None:
    assert learn(PPO, "MlpPolicy", make_env(INLINE, varied, strict=True)) > 10


@both
@pytest.mark.parametrize("name", [EVICT, "mlgo/Joint-v0"])
def test_maskable_ppo_learns_and_never_takes_an_illegal_action(make_env: MakeVecEnv, name: str, varied: str) -> None:
    assert learn(MaskablePPO, "MultiInputPolicy", make_env(name, varied, strict=True, max_decisions=12)) > 10


def test_without_masks_an_agent_would_take_illegal_actions(varied: str) -> None:
    with pytest.raises(ActionError, match="is not legal"):
        learn(PPO, "MultiInputPolicy", adapted(EVICT, varied, strict=True, max_decisions=12))


@both
def test_a_trained_policy_is_evaluated(make_env: MakeVecEnv, varied: str) -> None:
    env = VecMonitor(make_env(EVICT, varied, max_decisions=2))
    model = MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=8, seed=1, device="cpu")
    rewards, lengths = evaluate_policy(model, env, n_eval_episodes=4, return_episode_rewards=True)
    assert isinstance(lengths, list)
    assert lengths == [2] * 4
    assert np.isfinite(rewards).all()
    env.close()


# The interface


@pytest.mark.parametrize("name", [INLINE, EVICT, "mlgo/RegAllocPriority-v0"])
def test_it_shows_what_dummy_vec_env_shows(name: str, varied: str) -> None:
    ours, theirs = (each(name, varied, max_decisions=3) for each in (adapted, dummy))
    ours.seed(4)
    theirs.seed(4)
    ours.action_space.seed(1)
    assert_equal(ours.reset(), theirs.reset())
    assert_equal(ours.reset_infos, theirs.reset_infos)
    for _ in range(12):
        actions = np.stack([ours.action_space.sample() for _ in range(2)])
        stepped, expected = ours.step(actions), theirs.step(actions)
        for own, other in zip(stepped[3], expected[3], strict=True):
            own.pop("env_id", None)
            assert other.pop("TimeLimit.truncated") is own.pop("TimeLimit.truncated")
        assert_equal(stepped, expected)
        for infos in (ours.reset_infos, theirs.reset_infos):
            for info in infos:
                info.pop("env_id", None)
        assert_equal(ours.reset_infos, theirs.reset_infos)
    ours.close()
    theirs.close()


def assert_equal(ours: Any, theirs: Any) -> None:
    """Compare, number by number; whose number it is does not matter."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            assert_equal(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for each, other in zip(ours, theirs, strict=True):
            assert_equal(each, other)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    else:
        assert ours == theirs


def test_masks_are_found_where_sb3_contrib_looks_for_them(varied: str) -> None:
    env = adapted(EVICT, varied)
    env.reset()
    assert is_masking_supported(env)
    masks = get_action_masks(env)
    assert masks.shape == (2, 33)
    assert np.array_equal(masks, [info["action_mask"] for info in env.reset_infos])
    assert np.array_equal(env.env_method("action_masks", indices=1), masks[1:])
    env.close()


def test_where_all_is_legal_masks_are_ones(varied: str) -> None:
    env = adapted(INLINE, varied)
    assert get_action_masks(env).tolist() == [[1, 1], [1, 1]]
    env.close()
    continuous = adapted("mlgo/RegAllocPriority-v0", varied)
    with pytest.raises(MlgoError, match="masks are for discrete actions"):
        continuous.env_method("action_masks")
    continuous.close()


def test_a_failed_compile_is_a_truncation(varied: str) -> None:
    env = adapted(INLINE, varied, error_reward=-2.0)
    env.reset()
    end_clang(env._inner, 1)
    _, rewards, dones, infos = env.step(np.array([1, 1]))
    assert rewards.tolist() == [0.0, -2.0]
    assert dones.tolist() == [False, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True]
    assert infos[1]["error"]["kind"] == "signal"
    assert env.reset_infos[1]["decision"] == 0
    env.close()


def test_options_name_the_modules_of_the_next_reset_alone(varied: str) -> None:
    env = adapted(INLINE, varied, 3)
    env.seed(1)
    env.set_options([{"module": "calls"}, {}, {"module": "mixed"}])
    env.reset()
    assert [info["module"] for info in env.reset_infos[::2]] == ["calls", "mixed"]
    env.set_options({"module": "again"})
    env.reset()
    assert [info["module"] for info in env.reset_infos] == ["again"] * 3
    found = set()
    for _ in range(5):
        env.reset()
        found |= {info["module"] for info in env.reset_infos}
    assert len(found) > 1
    env.close()


def test_attributes_and_methods_of_chosen_environments_can_be_had(varied: str) -> None:
    env = adapted(INLINE, varied, 3, render_mode="ansi")
    env.reset()
    assert env.render_mode == "ansi"
    assert env.get_attr("metric") == ["text"] * 3
    assert env.get_attr("metric", indices=[0, 2]) == ["text"] * 2
    assert not env.has_attr("no_such_attribute")
    assert [text.startswith("inlining decision 0 of") for text in env.env_method("render", indices=1)] == [True]
    assert env.env_is_wrapped(gym.Wrapper, indices=[0, 1]) == [False, False]
    with pytest.raises(MlgoError, match="environments cannot be changed"):
        env.set_attr("metric", "object")
    env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "NextStep"}, "autoreset_mode=\"SameStep\", not 'NextStep'"),
        ({"autoreset_mode": "SameStep", "batch_size": 1}, "leave batch_size=1 away"),
    ],
    ids=str,
)
def test_an_unsuitable_environment_is_refused(options: dict[str, Any], message: str, varied: str) -> None:
    envs = make(INLINE, varied, 2, **options)
    with pytest.raises(MlgoError, match=message):
        VecEnvAdapter(envs)
    envs.close()


def test_gymnasiums_wrappers_stay_on(varied: str) -> None:
    envs = make(INLINE, varied, 2, autoreset_mode="SameStep")
    env = VecEnvAdapter(gym.wrappers.vector.TransformReward(envs, lambda reward: reward + 1))
    env.reset()
    assert env.step(np.array([1, 1]))[1].min() >= 0.9
    env.close()


WITHOUT = """
import sys
sys.modules["stable_baselines3"] = None
from mlgo_gym.errors import MissingExtraError
try:
    import mlgo_gym.adapters.sb3
except MissingExtraError as error:
    print(error)
"""


def test_without_the_extra_it_says_which_one() -> None:
    said = subprocess.check_output([sys.executable, "-c", WITHOUT], text=True)
    assert said == "the adapter for stable-baselines3 needs the extra 'sb3': pip install 'mlgo-gym[sb3]'\n"
