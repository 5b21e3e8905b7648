"""Networks as PyTorch modules, for training that starts from a network, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.network import Network, Normalization

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingExtraError("networks as PyTorch's modules", "training") from error

ACTIVATIONS: dict[str, Any] = {"relu": nn.ReLU, "tanh": nn.Tanh}
"""PyTorch's classes by the names of `Network.activation`."""


def sequential(network: Network) -> Any:
    """Return a network as a trainable `torch.nn.Sequential`: `Linear`, activation, …, `Linear`.

    Its inputs are normalized features, as from `NormalizeFeatures(env, network.normalization)`; its outputs are the
    logits of the actions. A network with one output, the logit of yes, becomes an equivalent one with two.
    """
    network = two_outputs(network)
    layers: list[Any] = []
    for weight in network.weights:
        layers += [nn.Linear(*weight.shape), ACTIVATIONS[network.activation]()]
    module = nn.Sequential(*layers[:-1])
    copy_layers(network, [layer for layer in module if isinstance(layer, nn.Linear)])
    return module


def read_sequential(module: Any, like: Network | Normalization) -> Network:
    """Return a trained `torch.nn.Sequential` as a network.

    Args:
        module: `Linear`, activation, …, `Linear`, trained; for instance the result of `sequential()`.
        like: the initial network, whose features and normalization are kept; or the normalization of the features.

    Raises:
        PolicyError: the number of features differs.
    """
    state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}
    layers = list(dict.fromkeys(name.partition(".")[0] for name in state))
    if isinstance(like, Network):
        features, activation, normalization = like.features, like.activation, like.normalization
    else:
        names = {kind: name for name, kind in ACTIVATIONS.items()}
        activation = next((names[type(layer)] for layer in module if type(layer) in names), "tanh")
        features, normalization = like.names, like
    return Network.from_state(state, layers, features, activation=activation, normalization=normalization)


def copy_layers(network: Network, layers: Sequence[Any], *, extra_inputs: int = 0) -> None:
    """Copy a network's weights and biases into PyTorch `Linear`s, first to last.

    The first layer has `extra_inputs` before the features, for instance an action mask, with weights of 0.

    Raises:
        PolicyError: the shapes differ.
    """
    expected = [weight.shape for weight in network.weights]
    expected[0] = (expected[0][0] + extra_inputs, expected[0][1])
    shapes = [(layer.in_features, layer.out_features) for layer in layers]
    if shapes != expected:
        raise PolicyError(
            f"expected layers of (inputs, outputs) {expected}, got {shapes}; give the model the network's shape, and "
            "the environment its features"
        )
    with torch.no_grad():
        for index, (layer, weight, bias) in enumerate(zip(layers, network.weights, network.biases, strict=True)):
            padding = np.zeros((0 if index else extra_inputs, weight.shape[1]), np.float32)
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(np.concatenate([padding, weight]).T)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)))


def two_outputs(network: Network) -> Network:
    """Return a network with an output per action; if it has the logit of yes only, that of no becomes 0."""
    if network.outputs > 1:
        return network
    weights = (*network.weights[:-1], np.pad(network.weights[-1], ((0, 0), (1, 0))))
    biases = (*network.biases[:-1], np.pad(network.biases[-1], (1, 0)))
    return Network(network.features, weights, biases, network.activation, network.normalization)
