"""Networks become PyTorch modules and come back."""

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import ACTIVATIONS
from tests.fakes.stepping import INLINE
from tests.policies.episodes import decisions, featured_network

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch

from mlgo_gym.integrations.pytorch import copy_layers, read_sequential, sequential, two_outputs

pytestmark = pytest.mark.libraries


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_module_decides_as_its_network_and_becomes_it_again(outputs: int, activation: str, varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as env:
        network, rows = featured_network(env, outputs, activation)
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
        network, _ = featured_network(env, 2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2))
    with pytest.raises(PolicyError, match=r"got \[\(3, 2\)\]; give the model the network's shape"):
        copy_layers(network, list(module))
