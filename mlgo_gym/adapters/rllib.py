"""RLlib: an algorithm whose policy is a given network, and the network that it has become."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlgo_gym.adapters.pytorch import hidden_widths, two_outputs
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.network import Network

try:
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
except ImportError as error:
    raise MissingExtraError("the adapter for RLlib", "rllib") from error


def rllib_model(network: Network) -> Any:
    """Return what `rl_module(model_config=…)` takes: layers for actor and critic each, of a network's shape.

    Args:
        network: what the algorithm is to start from.
    """
    return DefaultModelConfig(
        fcnet_hiddens=hidden_widths(network), fcnet_activation=network.activation, vf_share_layers=False
    )


def start_rllib(algorithm: Any, network: Network) -> None:
    """Let an algorithm decide as a network does, and learn on from there; its remote workers too.

    Args:
        algorithm: an algorithm of actor and critic, as PPO, built with `rllib_model(network)`, in environments whose
            observations are the network's features, as `NormalizeFeatures(env, network.normalization)` gives them.
        network: what to start from; a network with one output, the logit of yes, does as well.

    Raises:
        PolicyError: its layers have other shapes.
    """
    network = two_outputs(network)
    there = _actor(algorithm, network)
    state: dict[str, Any] = {}
    for layer, weight, bias in zip(_layers(network), network.weights, network.biases, strict=True):
        state |= {f"{layer}.weight": np.ascontiguousarray(weight.T), f"{layer}.bias": bias}
    shapes = [{name: part.shape for name, part in each.items()} for each in (state, there)]
    if shapes[0] != shapes[1]:
        raise PolicyError(
            f"layers of the shapes {shapes[0]} were wanted, found {shapes[1]}; build the algorithm with "
            "rl_module(model_config=rllib_model(network)), and wrap the environment as "
            "NormalizeFeatures(env, network.normalization)"
        )
    algorithm.learner_group.set_weights({DEFAULT_MODULE_ID: state})
    algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=algorithm.learner_group, inference_only=True)


def read_rllib(algorithm: Any, like: Network) -> Network:
    """Return the network that an algorithm's policy has become.

    Args:
        algorithm: what `start_rllib()` has started, trained.
        like: the network that it started from.

    Raises:
        PolicyError: it was built without `rllib_model()`.
    """
    return Network.from_state(
        _actor(algorithm, like),
        _layers(like),
        like.features,
        activation=like.activation,
        normalization=like.normalization,
    )


def _layers(network: Network) -> list[str]:
    hidden = [f"encoder.actor_encoder.net.mlp.{2 * number}" for number in range(len(network.weights) - 1)]
    return [*hidden, "pi.net.mlp.0"]


def _actor(algorithm: Any, network: Network) -> dict[str, Any]:
    state = algorithm.get_module().get_state()
    names = [f"{layer}.{part}" for layer in _layers(network) for part in ("weight", "bias")]
    return {name: np.asarray(state[name]) for name in names if name in state}
