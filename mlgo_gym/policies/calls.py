"""Networks that see the call that a decision is about, and what was decided before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.batching import row
from mlgo_gym.policies.call_features import CALL_FEATURES, USED, CallHistory, are_of_calls
from mlgo_gym.policies.choice import chooser
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.named_features import feature_vector
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats


def sees_calls(network: Network) -> bool:
    """Return whether a network has inputs that only `calls=True` gives."""
    return are_of_calls(network.features)


class CallsPolicy:
    """Takes the action that a network prefers; what it sees beside clang's features is followed here.

    It serves one episode at a time, and starts afresh where `info["decision"]` is 0. What was decided before is what
    clang was answered, whoever answered it.

    Args:
        env: the environment, with `calls=True`, and observations of any form.
        network: the network; some of its features are among `CALL_FEATURES`.

    Raises:
        PolicyError: the environment lacks a feature, foretells no calls, or has other actions.
    """

    def __init__(self, env: CompilerEnv, network: Network) -> None:
        if not env.setup.settings.calls:
            raise _no_calls("this environment foretells none: make it with calls=True (--set calls=true)")
        own = [name for name in network.features if name not in CALL_FEATURES]
        self._network = network
        self._features = feature_vector("mlp", env, [*own, *USED])
        self._choose = chooser("mlp", env, network.outputs)
        there = [*own, *USED, *CALL_FEATURES]
        self._columns = [there.index(name) for name in network.features]
        self._history = CallHistory()
        self._last: str | None = None

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the network's choice.

        Raises:
            PolicyError: the info tells no call.
        """
        return self._answer(*self._look(observation, info), info)

    def follow(self, observation: Any, info: Mapping[str, Any]) -> Floats:
        """Go on to a decision, as `act()` does, and return what is seen of its call beside clang's features.

        Returns:
            The values of `CALL_FEATURES`, float32 of shape (21,).

        Raises:
            PolicyError: the info tells no call.
        """
        return self._look(observation, info)[1]

    def answer(self, observation: Any, call: Floats, info: Mapping[str, Any]) -> Any:
        """Return the network's choice at a decision as one describes it.

        Args:
            observation: clang's features.
            call: the values of `CALL_FEATURES`, float32 of shape (21,).
            info: that of the decision.
        """
        return self._answer(self._features(observation), call, info)

    def _look(self, observation: Any, info: Mapping[str, Any]) -> tuple[Floats, Floats]:
        if "call" not in info:
            raise _no_calls("here nobody foretells them: it decides in the episodes of environments")
        call, context = info["call"], info["context"]
        if info["decision"] == 0:
            self._history, self._last = CallHistory(), None
        if self._last is not None:
            # What was foretold of the last call is known by now.
            self._history.add(self._last, call.previous, inlined=bool(call.previous_inlined))
        self._last = context
        values = self._features(observation)
        users, functions = float(values[-2]), float(values[-1])
        return values, self._history.features(context, info["visit"], info["position"], call, users, functions)

    def _answer(self, values: Floats, call: Floats, info: Mapping[str, Any]) -> Any:
        outputs = self._network(np.concatenate([values, call])[self._columns])
        return self._choose(outputs, info.get("action_mask"))

    def logits(self, observations: Any, calls: Floats) -> Floats:
        """Return how much the network prefers to inline at decisions of one compile; above 0 it does.

        Args:
            observations: a batch of at least one decision.
            calls: what `features_of_calls()` says of them, float32 of shape (decisions, 21).

        Returns:
            float32 of shape (decisions,).
        """
        values = np.stack([self._features(row(observations, number)) for number in range(len(calls))])
        outputs = self._network(np.concatenate([values, calls], axis=1)[:, self._columns])
        return outputs[:, -1] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]


def _no_calls(found: str) -> PolicyError:
    return PolicyError(f"the policy sees which function is called and what was decided before, and {found}")


def network_policy(env: CompilerEnv, network: Network) -> CallsPolicy | MlpPolicy:
    """Return the policy of a network, by what it sees.

    Raises:
        PolicyError: it does not fit the environment.
    """
    return CallsPolicy(env, network) if sees_calls(network) else MlpPolicy(env, network)
