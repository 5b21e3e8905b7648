"""Networks as PyTorch's modules: where learning by trial starts, and how what was learned comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.network import Network

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingExtraError("networks as PyTorch's modules", "training") from error

ACTIVATIONS: dict[str, Any] = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "leaky_relu": nn.LeakyReLU}
"""PyTorch's classes by the names that `Network` has for them."""


def sequential(network: Network) -> Any:
    """Return a network as a `torch.nn.Sequential`, to be trained on: `Linear`, activation, …, `Linear`.

    Its inputs are normalized features, as `NormalizeFeatures(env, network.normalization)` gives them, and its outputs
    the logits of the actions. A network with one output, the logit of yes, becomes one of two that decides alike.

    Args:
        network: what to start from.
    """
    network = two_outputs(network)
    layers: list[Any] = []
    for weight in network.weights:
        layers += [nn.Linear(*weight.shape), ACTIVATIONS[network.activation]()]
    module = nn.Sequential(*layers[:-1])
    copy_layers(network, [layer for layer in module if isinstance(layer, nn.Linear)])
    return module


def read_sequential(module: Any, like: Network) -> Network:
    """Return the network that a `torch.nn.Sequential` has become, with the features and normalization of another.

    Args:
        module: what `sequential(like)` gave, trained.
        like: the network that it started from.

    Raises:
        PolicyError: it takes another number of features.
    """
    state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}
    layers = list(dict.fromkeys(name.partition(".")[0] for name in state))
    return Network.from_state(
        state, layers, like.features, activation=like.activation, normalization=like.normalization
    )


def copy_layers(network: Network, layers: Sequence[Any], *, before: int = 0) -> None:
    """Copy a network's weights and biases into PyTorch's `Linear`s.

    Args:
        network: where they come from.
        layers: where they go, first to last.
        before: the first layer takes so many inputs before the features, as an action mask; they get weights of 0.

    Raises:
        PolicyError: the shapes are others.
    """
    wanted = [weight.shape for weight in network.weights]
    wanted[0] = (wanted[0][0] + before, wanted[0][1])
    found = [(layer.in_features, layer.out_features) for layer in layers]
    if found != wanted:
        raise PolicyError(
            f"layers of (inputs, outputs) {wanted} were wanted for the network, found {found}; give the model the "
            "network's shape, and the environment its features"
        )
    with torch.no_grad():
        for number, (layer, weight, bias) in enumerate(zip(layers, network.weights, network.biases, strict=True)):
            padded = np.concatenate([np.zeros((before, weight.shape[1]), np.float32), weight]) if not number else weight
            layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(padded.T)))
            layer.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)))


def two_outputs(network: Network) -> Network:
    """Return a network with an output for each action; one that has the logit of yes alone gets that of no, 0."""
    if network.outputs > 1:
        return network
    weights = (*network.weights[:-1], np.pad(network.weights[-1], ((0, 0), (1, 0))))
    biases = (*network.biases[:-1], np.pad(network.biases[-1], (1, 0)))
    return Network(network.features, weights, biases, network.activation, network.normalization)


def hidden_widths(network: Network) -> list[int]:
    """Return the widths of a network's hidden layers."""
    return [int(weight.shape[1]) for weight in network.weights[:-1]]
