"""`start_sb3()`: a model of stable-baselines3 or sb3-contrib whose policy is a given network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.network import Network

try:
    from torch import nn
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

from mlgo_gym.adapters.pytorch import ACTIVATIONS, copy_layers, hidden_widths, two_outputs

Model = TypeVar("Model")


def start_sb3(algorithm: Callable[..., Model], env: Any, network: Network, **settings: Any) -> Model:
    """Return a model that decides as a network does, and learns on from there.

    ```python
    network = imitate(gym.make("mlgo/Inline-v0", corpus="builtin"))
    env = NormalizeFeatures(gym.make("mlgo/Inline-v0", corpus="builtin"), network.normalization)
    model = start_sb3(PPO, env, network, learning_rate=3e-5, ent_coef=0.0, gamma=1.0)
    ```

    The critic has layers of the same widths, and knows nothing yet.

    Args:
        algorithm: `PPO`, `A2C` or `MaskablePPO`.
        env: what the algorithm takes; its observations are the network's features, normalized as the network does,
            alone or in a Dict beside an action mask.
        network: what to start from; a network with one output, the logit of yes, does as well.
        settings: what else the algorithm takes; `policy_kwargs` are added to those that the network needs.

    Raises:
        PolicyError: the environment's features or actions are not the network's, or the algorithm's policy has no
            network for its actions alone.
    """
    network = two_outputs(network)
    space = env.observation_space
    masked = isinstance(space, gym.spaces.Dict)
    flat = space["observations"] if masked else space
    _check_features(env, network, int(flat.shape[0]))
    widths = hidden_widths(network)
    ours = {"net_arch": {"pi": widths, "vf": widths}, "activation_fn": ACTIVATIONS[network.activation]}
    settings["policy_kwargs"] = {**ours, **settings.get("policy_kwargs", {})}
    model = algorithm("MultiInputPolicy" if masked else "MlpPolicy", env, **settings)
    mask = sum(int(part.shape[0]) for name, part in space.items() if name != "observations") if masked else 0
    copy_layers(network, actor_layers(model), before=mask)
    return model


def actor_layers(model: Any) -> list[Any]:
    """Return the `Linear`s of a model that say what to do, first to last.

    Raises:
        PolicyError: it has no such layers of their own.
    """
    policy = model.policy
    extractor = getattr(policy, "mlp_extractor", None)
    if extractor is None or not hasattr(policy, "action_net"):
        raise PolicyError(f"a model with an actor and a critic was wanted, as of PPO, found {type(model).__name__}")
    return [layer for layer in extractor.policy_net if isinstance(layer, nn.Linear)] + [policy.action_net]


def _check_features(env: Any, network: Network, count: int) -> None:
    names = getattr(getattr(env, "envs", env), "feature_names", None)
    if isinstance(env, gym.Env) and env.has_wrapper_attr("feature_names"):
        names = env.get_wrapper_attr("feature_names")
    if count != len(network.features) or (names is not None and tuple(names) != network.features):
        raise PolicyError(
            f"the network knows {len(network.features)} features, and the environment shows {count}, or others: wrap "
            "it as NormalizeFeatures(env, network.normalization)"
        )
