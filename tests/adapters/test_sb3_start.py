"""Models of stable-baselines3 and sb3-contrib start from a network, and decide as it does."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.sb3 import read_sb3, save_sb3
from mlgo_gym.wrappers import NormalizeFeatures, vector
from tests.adapters.networks import decisions, random_network
from tests.vector.stepping import EVICT, INLINE, make

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")

from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO

from mlgo_gym.adapters.sb3 import VecEnvAdapter
from mlgo_gym.adapters.sb3_start import start_sb3

pytestmark = [
    pytest.mark.libraries,
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.filterwarnings("ignore:.*multiple of the mini-batch.*:UserWarning"),
]
assert mlgo_gym


@pytest.mark.parametrize(("outputs", "activation"), [(1, "relu"), (2, "tanh")])
def test_ppo_starts_from_a_network_and_learns_on(outputs: int, activation: str, varied: str, tmp_path: Path) -> None:
    with gym.make(INLINE, corpus=varied) as inner:
        network, rows = random_network(inner, outputs, activation)
        normal = network.normalization
        assert normal is not None
        wrapped = NormalizeFeatures(inner, normal)
        model = start_sb3(PPO, wrapped, network, n_steps=32, batch_size=32, seed=0, device="cpu")
        chosen, _ = model.predict(normal(rows), deterministic=True)
        assert set(chosen.tolist()) == {0, 1}
        assert (chosen == decisions(network, rows)).mean() > 0.99  # but where both are worth the same
        save_sb3(model, tmp_path / "m.zip", network.features, normal)
        read = read_sb3(tmp_path / "m.zip", inner.unwrapped)  # type: ignore[arg-type] # it is of mlgo-gym
        assert decisions(read, rows) == decisions(network, rows)
        before = model.policy.action_net.weight.clone()
        model.learn(32)
        assert not (model.policy.action_net.weight == before).all()


def test_many_environments_at_once_start_from_a_network(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as single:
        network, rows = random_network(single, 2)
    normal = network.normalization
    assert normal is not None
    env = VecEnvAdapter(vector.NormalizeFeatures(make(INLINE, varied, 2, autoreset_mode="SameStep"), normal))
    model = start_sb3(PPO, env, network, device="cpu")
    chosen, _ = model.predict(normal(rows), deterministic=True)
    assert (chosen == decisions(network, rows)).mean() > 0.99
    env.close()


def test_maskable_ppo_starts_from_a_network_whatever_is_legal(varied: str) -> None:
    with gym.make(EVICT, corpus=varied) as inner:
        network, rows = random_network(inner, 33)
        normal = network.normalization
        assert normal is not None
        wrapped = NormalizeFeatures(inner, normal)
        model = start_sb3(MaskablePPO, wrapped, network, seed=0, device="cpu")
        masks = np.random.default_rng(0).integers(0, 2, (len(rows), 33), np.int8)
        masks[:, -1] = 1
        observations = {"observations": normal(rows), "action_mask": masks}
        chosen, _ = model.predict(observations, deterministic=True, action_masks=masks)
        assert len(set(chosen.tolist())) > 5
        assert (chosen == np.where(masks, network(rows), -np.inf).argmax(1)).mean() > 0.99


def test_what_is_not_the_networks_environment_or_has_no_actor_is_refused(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as inner:
        network, _ = random_network(inner, 2)
        with pytest.raises(PolicyError, match=r"wrap it as NormalizeFeatures\(env, network.normalization\)"):
            start_sb3(PPO, inner, network)
        assert network.normalization is not None
        wrapped = NormalizeFeatures(inner, network.normalization)
        with pytest.raises(PolicyError, match="an actor and a critic was wanted, as of PPO, found DQN"):
            start_sb3(DQN, wrapped, network, policy_kwargs={"net_arch": [8]}, device="cpu", buffer_size=10)
