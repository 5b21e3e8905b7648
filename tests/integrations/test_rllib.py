"""RLlib's learner and its acting module start from a network; no cluster, which takes half a minute to start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.integrations import NormalizeFeatures
from tests.fakes.stepping import INLINE
from tests.integrations.networks import random_network

pytest.importorskip("ray", reason="the extra rllib is not installed")
pytest.importorskip("torch", reason="the extra rllib is not installed")

import torch
from ray.rllib.algorithms.ppo import PPOConfig

from mlgo_gym.integrations.rllib import read_rllib, rllib_model, start_rllib

pytestmark = [pytest.mark.libraries, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


class Local:
    """The learner and the acting module of an algorithm, in-process."""

    def __init__(self, env: gym.Env[Any, Any], model: Any) -> None:
        spaces = env.observation_space, env.action_space
        config = PPOConfig().environment(observation_space=spaces[0], action_space=spaces[1])
        config = config.rl_module(model_config=model).learners(num_learners=0)
        spec = config.get_multi_rl_module_spec(spaces={"default_policy": spaces})
        self.learner_group = config.build_learner_group(rl_module_spec=spec)
        self.env_runner_group = SimpleNamespace(sync_weights=self._sync)
        self._module = spec.build()["default_policy"]

    def get_module(self) -> Any:
        return self._module

    def _sync(self, *, from_worker_or_learner_group: Any, inference_only: bool) -> None:
        assert inference_only
        self._module.set_state(from_worker_or_learner_group.get_weights()["default_policy"])


def test_learner_and_acting_module_start_from_a_network_and_return_it(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as env:
        network, rows = random_network(env, 2)
        other, _ = random_network(env, 2, hidden=(4,))
        assert network.normalization is not None
        normal = network.normalization
        algorithm = Local(NormalizeFeatures(env, normal), rllib_model(network))
        assert not np.allclose(read_rllib(algorithm, network)(rows), network(rows))
        start_rllib(algorithm, network)
        assert np.array_equal(read_rllib(algorithm, network)(rows), network(rows))
        seen = {"obs": torch.from_numpy(normal(rows))}
        acted = algorithm.get_module().forward_inference(seen)["action_dist_inputs"].numpy()
        assert np.allclose(acted, network(rows), atol=1e-4)
        learned = algorithm.learner_group.get_weights()["default_policy"]["pi.net.mlp.0.bias"]
        assert np.array_equal(np.asarray(learned), network.biases[-1])
        with pytest.raises(PolicyError, match="build the algorithm with"):
            start_rllib(algorithm, other)
