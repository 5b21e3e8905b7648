"""Environments with normalized features: one, many, and masked ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.integrations import Normalization, NormalizeFeatures, fit_normalization, vector
from mlgo_gym.policies.network import CLIP
from mlgo_gym.policies.protocol import flat_part
from mlgo_gym.testing import check_environment
from tests.fakes.stepping import EVICT, INLINE, make

CALLS = {"module": "calls"}


@pytest.fixture
def env(corpus: Path) -> Iterator[gym.Env[Any, Any]]:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    yield env
    env.close()


@pytest.fixture
def normalization(env: gym.Env[Any, Any]) -> Normalization:
    return fit_normalization(env, observations=30, seed=1)


def test_observations_have_the_known_features_normalized(env: gym.Env[Any, Any], normalization: Normalization) -> None:
    raw, _ = env.reset(options=CALLS)
    wrapped = NormalizeFeatures(env, normalization)
    observation, info = wrapped.reset(options=CALLS)
    assert np.array_equal(observation, normalization(raw))
    assert observation in wrapped.observation_space
    observation, *_ = wrapped.step(info["default_action"])
    assert observation in wrapped.observation_space
    few = normalization.select(["threshold", "callee_users"])
    wrapped = NormalizeFeatures(env, few)
    assert wrapped.feature_names == ("threshold", "callee_users")
    observation, _ = wrapped.reset(options=CALLS)
    names = env.get_wrapper_attr("feature_names")
    assert np.array_equal(observation, few(raw[[names.index("threshold"), names.index("callee_users")]]))


def test_the_vector_environment_is_equal(env: gym.Env[Any, Any], normalization: Normalization, corpus: Path) -> None:
    single = NormalizeFeatures(env, normalization)
    inner = gym.make_vec("mlgo/Inline-v0", num_envs=2, corpus=str(corpus), autoreset_mode="SameStep")
    many = vector.NormalizeFeatures(inner, normalization)
    observations, _ = many.reset(options=CALLS)
    alone, _ = single.reset(options=CALLS)
    assert observations in many.observation_space
    ended = False
    while not ended:
        assert np.array_equal(observations[0], alone)
        alone, _, ended, _, _ = single.step(1)
        observations, _, terminations, _, infos = many.step(np.ones(2, np.int64))
        assert bool(terminations[0]) == ended
    assert np.array_equal(infos["final_obs"][0], alone)
    many.close()


@pytest.mark.parametrize("name", [INLINE, EVICT])
def test_logarithms_need_no_fit(name: str, varied: str) -> None:
    with gym.make(name, corpus=varied, max_decisions=4) as env:
        wrapped = NormalizeFeatures(env)
        raw, scaled = (flat_part(made.reset(seed=1)[0]) for made in (env, wrapped))
        check_environment(wrapped)
    expected = np.clip(np.sign(raw) * np.log1p(np.abs(raw.astype(np.float64))) / 4, -CLIP, CLIP)
    np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    assert np.unique(scaled).size > 5
    envs = vector.NormalizeFeatures(make(name, varied, 2, max_decisions=4))
    np.testing.assert_array_equal(flat_part(envs.reset(seed=1)[0])[0], scaled)
    assert Normalization.from_json(wrapped.normalization.to_json()).names == envs.feature_names
    envs.close()
