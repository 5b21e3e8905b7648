"""Policies of networks, computed by NumPy: `mlp:FILE`."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.network import Floats, Network
from mlgo_gym.policies.protocol import chooser, feature_vector


class MlpPolicy:
    """Takes the action that a network prefers; its features are found by name.

    Observations may have any form and further features. For a masked action space the network has one output per
    action. Raises `PolicyError` if the environment lacks a feature, or has other actions.
    """

    def __init__(self, env: CompilerEnv, network: Network, name: str = "mlp") -> None:
        self._network = network
        self._features = feature_vector(name, env, network.features)
        self._choose = chooser(name, env, network.outputs)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the network's choice among the legal actions."""
        return self._choose(self._network(self._features(observation)), info.get("action_mask"))

    def logits(self, observations: Iterable[Any]) -> Floats:
        """Return the preference of action 1 over action 0 at each observation, float32 of shape (observations,)."""
        outputs = self._network(np.stack(list(map(self._features, observations))))
        return outputs[:, -1] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]
