"""The policies `mlp:FILE`: a small network, computed by NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.batching import row
from mlgo_gym.policies.choice import chooser
from mlgo_gym.policies.named_features import feature_vector
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats


class MlpPolicy:
    """Takes the action that a network prefers; its features are found by name.

    Args:
        env: the environment, with observations of any form. It may have more features than the network knows.
        network: the network; for a masked action space it has one output per action.

    Raises:
        PolicyError: the environment lacks a feature, or has other actions.
    """

    def __init__(self, env: CompilerEnv, network: Network) -> None:
        self._network = network
        self._features = feature_vector("mlp", env, network.features)
        self._choose = chooser("mlp", env, network.outputs)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the network's choice among the legal actions."""
        return self._choose(self._network(self._features(observation)), info.get("action_mask"))

    def logits(self, observations: Any) -> Floats:
        """Return how much the network prefers action 1 to action 0 at each decision; above 0 it takes it.

        Args:
            observations: a batch, as `act_batch()` takes it, of at least one decision.

        Returns:
            float32 of shape (decisions,).

        Raises:
            PolicyError: there are other actions than 0 and 1.
        """
        features = [self._features(row(observations, number)) for number in range(_length(observations))]
        outputs = self._network(np.stack(features))
        if outputs.shape[1] > 2:
            raise PolicyError(f"a network that says no or yes was wanted, this one has {outputs.shape[1]} outputs")
        return outputs[:, -1] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the network's choice at each decision, bit for bit that of `act()`."""
        features = [self._features(row(observations, number)) for number in range(len(infos))]
        outputs = self._network(np.stack(features))
        return [self._choose(values, info.get("action_mask")) for values, info in zip(outputs, infos, strict=True)]


def _length(observations: Any) -> int:
    return _length(next(iter(observations.values()))) if isinstance(observations, dict) else len(observations)
