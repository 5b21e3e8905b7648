"""RLlib's PPO starts from a network, and decides as it does."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.errors import PolicyError
from mlgo_gym.wrappers import NormalizeFeatures
from tests.adapters.networks import random_network
from tests.vector.stepping import INLINE

pytest.importorskip("ray", reason="RLlib is not installed")

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from mlgo_gym.adapters.rllib import read_rllib, rllib_model, start_rllib

pytestmark = [pytest.mark.libraries, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]
assert mlgo_gym


@pytest.fixture
def started() -> Iterator[None]:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("started")
def test_ppo_starts_from_a_network_and_gives_one_back(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as env:
        network, rows = random_network(env, 2)
        normal = network.normalization
        assert normal is not None
        register_env("inline", lambda _: NormalizeFeatures(gym.make(INLINE, corpus=varied), normal))
        config = PPOConfig().environment("inline").env_runners(num_env_runners=0)
        algorithm = config.rl_module(model_config=rllib_model(network)).build_algo()
        try:
            assert not np.allclose(read_rllib(algorithm, network)(rows), network(rows))
            start_rllib(algorithm, network)
            assert np.array_equal(read_rllib(algorithm, network)(rows), network(rows))
            with pytest.raises(PolicyError, match="build the algorithm with"):
                start_rllib(algorithm, random_network(env, 2, hidden=(4,))[0])
            # What learns has the same weights as what acts.
            learned = algorithm.learner_group.get_weights()["default_policy"]["pi.net.mlp.0.bias"]
            assert np.array_equal(np.asarray(learned), network.biases[-1])
        finally:
            algorithm.stop()
