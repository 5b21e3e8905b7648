"""The policies `mlp:FILE`: a small network, computed by NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.eviction import EvictionPolicy, decides_evictions
from mlgo_gym.policies.features import chooser, feature_vector
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.policies.protocol import Policy, row


class MlpPolicy:
    """Takes the action that a network prefers; its features are found by name.

    Args:
        env: the environment, with observations of any form and any other features.
        network: the network; for a masked action space it has one output per action.
        name: the policy's name, for errors.

    Raises:
        PolicyError: the environment lacks a feature, or has other actions.
    """

    def __init__(self, env: CompilerEnv, network: Network, name: str = "mlp") -> None:
        self._network = network
        self._features = feature_vector(name, env, network.features)
        self._choose = chooser(name, env, network.outputs)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the network's choice among the legal actions."""
        return self._choose(self._network(self._features(observation)), info.get("action_mask"))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the network's choice at each decision, bit for bit that of `act()`."""
        outputs = self._outputs(observations, len(infos))
        return [self._choose(values, info.get("action_mask")) for values, info in zip(outputs, infos, strict=True)]

    def logits(self, observations: Any) -> Floats:
        """Return the preference of action 1 over action 0, float32 of shape (decisions,); an error for more actions."""
        part = observations
        while isinstance(part, dict):
            part = next(iter(part.values()))
        outputs = self._outputs(observations, len(part))
        if outputs.shape[1] > 2:
            raise PolicyError(f"expected a network with 1 or 2 outputs, got {outputs.shape[1]} outputs")
        return outputs[:, -1] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def _outputs(self, observations: Any, count: int) -> Floats:
        return self._network(np.stack([self._features(row(observations, number)) for number in range(count)]))


def network_policy(env: CompilerEnv, network: Network, name: str) -> Policy:
    """Return the policy of a network: an `EvictionPolicy` or an `MlpPolicy`; arguments as for `MlpPolicy`."""
    return (EvictionPolicy if decides_evictions(network) else MlpPolicy)(env, network, name)
