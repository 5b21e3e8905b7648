"""RLlib by its own entry point, `PPOConfig().environment(id)`, and by its own module for masked actions.

Runners in processes of their own are in `examples/rllib_ppo.py`, which is tried too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="the extra rllib is not installed")
pytest.importorskip("torch", reason="the extra rllib is not installed")

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

from mlgo_gym.scheduling.ray_cluster import ray_library

pytestmark = [
    pytest.mark.libraries,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("ray"),  # two nodes that start at the same time can be too slow for Ray
    pytest.mark.filterwarnings("ignore"),  # ray warns of itself
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One small cluster for all tests of this file."""
    ray = ray_library()
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=512 << 20, log_to_driver=False)
    yield
    ray.shutdown()


def small(name: str, arguments: dict[str, Any]) -> PPOConfig:
    """PPO that collects in this process, and learns from 16 decisions once."""
    config: PPOConfig = (
        PPOConfig()
        .environment(f"mlgo_gym:{name}", env_config=arguments)
        .env_runners(num_env_runners=0, rollout_fragment_length="auto")
        .training(train_batch_size_per_learner=16, minibatch_size=8, num_epochs=1)
        .debugging(seed=0)
    )
    return config


def learn(config: PPOConfig) -> dict[str, Any]:
    """Train once, and return what the environments reported."""
    algorithm = config.build_algo()
    try:
        report: dict[str, Any] = algorithm.train()["env_runners"]
    finally:
        algorithm.stop()
    return report


def test_ppo_learns_from_an_id(name: str, short: dict[str, Any]) -> None:
    report = learn(small(name, short | {"observation": "vector"}))
    assert report["num_env_steps_sampled"] >= 16
    assert np.isfinite(report["episode_return_mean"])


@pytest.mark.parametrize("name", ["mlgo/RegAllocEvict-v0"])
def test_its_module_for_masked_actions_never_takes_an_illegal_one(name: str, short: dict[str, Any]) -> None:
    config = small(name, short | {"strict": True}).rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=ActionMaskingTorchRLModule,
            model_config={"head_fcnet_hiddens": [16], "head_fcnet_activation": "relu"},
        )
    )
    report = learn(config)
    assert report["num_env_steps_sampled"] >= 16
