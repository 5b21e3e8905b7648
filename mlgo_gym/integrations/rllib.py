"""RLlib: algorithms that start from a network, and the trained network."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.integrations.pytorch import hidden_widths, network_like, two_outputs
from mlgo_gym.policies.network import Network

try:
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
except ImportError as error:
    raise MissingExtraError("the adapter for RLlib", "rllib") from error


def rllib_model(network: Network) -> Any:
    """Return the `model_config` of `rl_module()`: a separate actor and critic of a network's shape."""
    widths, activation = hidden_widths(network), network.activation
    return DefaultModelConfig(fcnet_hiddens=widths, fcnet_activation=activation, vf_share_layers=False)


def start_rllib(algorithm: Any, network: Network) -> None:
    """Copy a network into the policy of an algorithm and of its remote workers.

    Args:
        algorithm: an actor-critic algorithm such as PPO, built with `rllib_model(network)`. The observations of its
            environments are the network's features, as from `NormalizeFeatures(env, network.normalization)`.
        network: the initial network, with an output per action or the logit of yes.

    Raises:
        PolicyError: the shapes of the layers differ.
    """
    network = two_outputs(network)
    state: dict[str, Any] = {}
    for layer, weight, bias in zip(_layers(network), network.weights, network.biases, strict=True):
        state |= {f"{layer}.weight": np.ascontiguousarray(weight.T), f"{layer}.bias": bias}
    arrays = state, _actor(algorithm, network)
    expected, shapes = ({name: array.shape for name, array in side.items()} for side in arrays)
    if shapes != expected:
        raise PolicyError(
            f"expected layers of the shapes {expected}, got {shapes}; build the algorithm with rl_module(model_config="
            "rllib_model(network)), and wrap the environment as NormalizeFeatures(env, network.normalization)"
        )
    algorithm.learner_group.set_weights({DEFAULT_MODULE_ID: state})
    algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=algorithm.learner_group, inference_only=True)


def read_rllib(algorithm: Any, like: Network) -> Network:
    """Return the policy of an algorithm as a network.

    Args:
        algorithm: an algorithm that `start_rllib()` started, trained.
        like: the initial network; its features and normalization are kept.

    Raises:
        PolicyError: the algorithm was built without `rllib_model()`.
    """
    return network_like(like, _actor(algorithm, like), _layers(like))


def _layers(network: Network) -> list[str]:
    hidden = [f"encoder.actor_encoder.net.mlp.{2 * number}" for number in range(len(network.weights) - 1)]
    return [*hidden, "pi.net.mlp.0"]


def _actor(algorithm: Any, network: Network) -> dict[str, Any]:
    state = algorithm.get_module().get_state()
    names = [f"{layer}.{part}" for layer in _layers(network) for part in ("weight", "bias")]
    return {name: np.asarray(state[name]) for name in names if name in state}
