"""Networks become PyTorch modules and come back; TorchRL acts with them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import ACTIVATIONS
from tests.fakes.stepping import INLINE
from tests.integrations.networks import decisions, random_network

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from mlgo_gym.integrations.pytorch import copy_layers, read_sequential, sequential, two_outputs

pytestmark = pytest.mark.libraries


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_module_decides_as_its_network_and_becomes_it_again(outputs: int, activation: str, varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as env:
        network, rows = random_network(env, outputs, activation)
    module = sequential(network)
    normal = network.normalization
    assert normal is not None
    logits = module(torch.from_numpy(normal(rows))).detach().numpy()
    assert logits.shape == (len(rows), 2)
    chosen = decisions(network, rows)
    assert set(chosen) == {0, 1}
    # The order of summation differs, which can break ties.
    clear = np.abs(logits[:, 1] - logits[:, 0]) > 1e-3
    assert (logits.argmax(1) == chosen)[clear].all()
    assert clear.mean() > 0.9
    assert np.array_equal(read_sequential(module, network)(rows), two_outputs(network)(rows))


def test_layers_of_another_shape_are_refused(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as env:
        network, _ = random_network(env, 2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with pytest.raises(PolicyError, match=r"got \[\(3, 2\)\]; give the model the network's shape"):
        copy_layers(network, list(module))


def test_torchrl_acts_as_the_network_does(varied: str) -> None:
    pytest.importorskip("torchrl", reason="TorchRL is not installed")
    from tensordict.nn import TensorDictModule
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules import OneHotCategorical, ProbabilisticActor

    from mlgo_gym.integrations import NormalizeFeatures

    inner = gym.make(INLINE, corpus=varied)
    network, _ = random_network(inner, 2)
    normal = network.normalization
    assert normal is not None
    env = GymWrapper(NormalizeFeatures(inner, normal))
    actor = ProbabilisticActor(
        TensorDictModule(sequential(network), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
    )
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        batch = env.rollout(12, actor, break_when_any_done=False)
    env.close()
    taken = batch["action"].argmax(-1).tolist()
    # The observations are normalized already.
    bare = type(network)(network.features, network.weights, network.biases, network.activation)
    assert taken == decisions(bare, batch["observation"].numpy())
