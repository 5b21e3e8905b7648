"""Policies of networks, computed by NumPy: `mlp:FILE`, and those of evictions.

A network of evictions sees one legal column at a time: its features, those of clang's own choice and of the candidate,
and their relations. Its output is the expected change of the function's cost in percent, plus a margin. The policy
takes the column with the smallest output if that is below 0, else clang's own choice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.policies.network import Floats, Network
from mlgo_gym.policies.protocol import Policy, check_advisor, chooser, feature_vector, rows

COLUMN_FEATURES = (
    *("is_free", "nr_urgent", "nr_broken_hints", "is_hint", "is_local", "nr_rematerializable", "nr_defs_and_uses"),
    *("weighed_reads_by_max", "weighed_writes_by_max", "weighed_read_writes_by_max", "weighed_indvars_by_max"),
    *("hint_weights_by_max", "start_bb_freq_by_max", "end_bb_freq_by_max", "hottest_bb_freq_by_max"),
    *("liverange_size", "use_def_density", "max_stage", "min_stage"),
)
"""Features of clang that each column has; `mask` is apart."""

_PARTS = ("own", "default", "candidate", "own_to_default", "own_to_candidate", "own_to_least")
_FACTS = ("is_nothing", "default_is_nothing", "progress", "legal", "column", "default_column", "may_decline")

INPUTS = (*(f"{part}.{name}" for part in _PARTS for name in COLUMN_FEATURES), *_FACTS)
"""Inputs of the network."""

_SMALL = np.full(1, 1e-6, np.float32)


def column_inputs(features: Floats, legal: npt.NDArray[np.intp], default: int, progress: float) -> Floats:
    """Return the inputs of the network for the legal columns but clang's own choice, float32 of shape (…, inputs).

    `features` are the `COLUMN_FEATURES` of all columns, of shape (columns, features); the last is the candidate.
    """
    last = len(features) - 1
    columns = legal[legal != default]
    own = features[columns]
    registers = features[legal[legal != last]]
    least = registers.min(0) if len(registers) else features[last]
    others = [np.broadcast_to(other, own.shape) for other in (features[default], features[last])]
    relations = [_relation(own, other) for other in (*others, least)]
    facts = np.empty((len(columns), len(_FACTS)), np.float32)
    facts[:, 0], facts[:, 1], facts[:, 2] = columns == last, default == last, progress
    facts[:, 3], facts[:, 4], facts[:, 5], facts[:, 6] = len(legal), columns, default, legal[-1] == last
    return np.concatenate([own, *others, *relations, facts], axis=1)


def _relation(first: Floats, second: Floats) -> Floats:
    """Return the difference relative to the sum of the amounts, from -1 to 1."""
    relation: Floats = np.divide(first - second, np.abs(first) + np.abs(second) + _SMALL, dtype=np.float32)
    return relation


class EvictionPolicy:
    """Deviates from clang's own choice where a network with `INPUTS` and one output expects a smaller cost.

    Raises:
        PolicyError: The environment has other decisions, or lacks a feature.
    """

    def __init__(self, env: CompilerEnv, network: Network, name: str = "evict") -> None:
        check_advisor(name, env, EVICTION)
        if network.features != INPUTS or network.outputs != 1:
            raise PolicyError(f"expected a network for evictions with one output, got other inputs in {name}")
        self._network = network
        self._columns = int(env.action_space.n)  # type: ignore[attr-defined]  # Discrete, as its task says
        names = [f"{feature}[{column}]" for column in range(self._columns) for feature in COLUMN_FEATURES]
        self._features = feature_vector(name, env, [*names, "progress"])

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        """Return a legal column."""
        legal, default = np.flatnonzero(info["action_mask"]), int(info["default_action"])
        if len(legal) < 2:
            return default
        values = self._features(observation)
        features = values[:-1].reshape(self._columns, len(COLUMN_FEATURES))
        outputs = self._network(column_inputs(features, legal, default, float(values[-1])))[:, 0]
        best = int(outputs.argmin())
        return int(legal[legal != default][best]) if outputs[best] < 0 else default

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the column at each decision."""
        return [self.act(rows(observations, number), info) for number, info in enumerate(infos)]


def decides_evictions(network: Network) -> bool:
    """Return whether a network is one of `EvictionPolicy`."""
    return network.features == INPUTS


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
        """Return the preference of action 1 over action 0, float32 of shape (decisions,)."""
        part = observations
        while isinstance(part, dict):
            part = next(iter(part.values()))
        outputs = self._outputs(observations, len(part))
        return outputs[:, -1] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def _outputs(self, observations: Any, count: int) -> Floats:
        return self._network(np.stack([self._features(rows(observations, number)) for number in range(count)]))


def network_policy(env: CompilerEnv, network: Network, name: str) -> Policy:
    """Return the policy of a network: an `EvictionPolicy` or an `MlpPolicy`; arguments as for `MlpPolicy`."""
    return (EvictionPolicy if decides_evictions(network) else MlpPolicy)(env, network, name)
