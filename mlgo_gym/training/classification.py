"""Classification: a softmax policy fitted to the cheapest action of each label.

Where each action has features of its own, as in register allocation, one small scorer is applied to every action: it
sees the features of that action, those of the last action (at an eviction the candidate itself), and the common ones.
The scorer is written out as an ordinary `Network`, most of whose weights are 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats, Normalization
from mlgo_gym.training.distillation import (
    Build,
    NetworkSettings,
    gradient_descent,
    perceptron,
    to_network,
    torch_library,
)
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.monitor import Monitor

SCORER_WIDTH = 12
"""Hidden units per action, where actions have features of their own."""

Scores = Callable[[Any, Any], Any]
"""Returns the score of each action, given a module and the row numbers of a batch."""

_ILLEGAL = -1e9
_SCORER_BATCH = 128
_ELEMENT = re.compile(r"(.+)\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Classification:
    """Fits a softmax policy to the cheapest action of each label; the policy's own action wins ties.

    Attributes:
        settings: Size and training of the network. Where actions have features of their own, the hidden layers are
            replaced by one of `SCORER_WIDTH` units per action.
        label_smoothing: Probability of the other legal actions together in the targets (0 ≤ p < 1).
        seed: Source of the first weights and of the batches.
    """

    settings: NetworkSettings = field(default_factory=NetworkSettings)
    label_smoothing: float = 0.0
    seed: int = 0

    def fit(self, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        """Return a network with one output per action, the logits of a softmax policy."""
        torch = torch_library()
        labels = joined(rounds)
        names, actions = labels.features, labels.costs.shape[1]
        observations = labels.observations.astype(np.float32)
        targets = torch.from_numpy(labels.best_actions)
        legal = torch.from_numpy(~np.isposinf(labels.costs))

        def loss(outputs: Any, batch: Any) -> Any:
            allowed = legal[batch]
            surprise = -torch.nn.functional.log_softmax(outputs.masked_fill(~allowed, _ILLEGAL), 1)
            target = surprise.gather(1, targets[batch, None])[:, 0]
            # Illegal actions do not count, nor does smoothing where only one action is legal.
            others = ((surprise * allowed).sum(1) - target) / (allowed.sum(1) - 1).clamp(min=1)
            return ((1 - self.label_smoothing) * target + self.label_smoothing * others).mean()

        places = action_features(names, actions)
        with monitor.stage("network", self.settings.steps) as advance:
            options: dict[str, Any] = {"seed": self.seed, "advance": advance}
            if places is not None:
                normalization = pooled_normalization(observations, names, places[0])
                inputs = normalization(observations)
                build, scores = _scorer(torch.from_numpy(inputs), *places)
                options["batch"] = _SCORER_BATCH
            else:
                normalization = Normalization.fit(observations, names, "log_standard")
                inputs = normalization(observations)
                build, scores = (
                    perceptron([len(names), *self.settings.hidden, actions]),
                    _rows(torch.from_numpy(inputs)),
                )
            model = gradient_descent(
                build,
                lambda module, batch: loss(scores(module, batch), batch),
                len(inputs),
                self.settings.steps,
                **options,
            )
        if places is None:
            return to_network(model, normalization)
        weights, biases = _written_out(model, *places, len(names))
        return Network(names, weights, biases, "relu", normalization)


def action_features(names: Sequence[str], actions: int) -> tuple[npt.NDArray[np.intp], list[int]] | None:
    """Return the columns of each action's own features, of shape (actions, features of each), and the common columns.

    The feature `NAME[i]` belongs to action i if there is one for each action. None: actions have no own features.
    """
    by_name: dict[str, dict[int, int]] = {}
    common = []
    for place, name in enumerate(names):
        element = _ELEMENT.fullmatch(name)
        if element is None:
            common.append(place)
        else:
            by_name.setdefault(element[1], {})[int(element[2])] = place
    if not by_name or any(sorted(places) != list(range(actions)) for places in by_name.values()):
        return None
    return np.array([[places[action] for places in by_name.values()] for action in range(actions)], np.intp), common


def pooled_normalization(observations: Floats, names: Sequence[str], own: npt.NDArray[np.intp]) -> Normalization:
    """Return a normalization that treats a feature of one action as that of any other; `own` are their columns."""
    single = Normalization.fit(observations, names, "log_standard")
    center, scale = single.center.copy(), single.scale.copy()
    pooled = observations[:, own].reshape(-1, own.shape[1])
    shared = Normalization.fit(pooled, [str(number) for number in range(own.shape[1])], "log_standard")
    center[own], scale[own] = shared.center, shared.scale
    return Normalization(single.method, single.names, center, scale)


def _rows(inputs: Any) -> Scores:
    return lambda module, batch: module(inputs[batch])


def _scorer(inputs: Any, own: npt.NDArray[np.intp], common: Sequence[int]) -> tuple[Build, Scores]:
    """Return what builds the layers that score each action by the same weights, and the scores of a batch."""
    torch = torch_library()
    places = torch.from_numpy(own)
    actions, count = own.shape

    def build(torch: Any) -> Any:
        # The last action differs in kind from those before it.
        widths = [(2 * count + len(common), SCORER_WIDTH), (SCORER_WIDTH, 1)]
        widths += [(count + len(common), SCORER_WIDTH), (SCORER_WIDTH, 1)]
        return torch.nn.ModuleList([torch.nn.Linear(*shape) for shape in widths])

    def scores(layers: Any, batch: Any) -> Any:
        columns, shared = inputs[batch][:, places], inputs[batch][:, list(common)]
        candidate = torch.cat([columns[:, -1], shared], 1)
        others = torch.cat([columns[:, :-1], candidate[:, None].expand(-1, actions - 1, -1)], 2)
        values = layers[1](torch.relu(layers[0](others)))[..., 0]
        return torch.cat([values, layers[3](torch.relu(layers[2](candidate)))], 1)

    return build, scores


def _written_out(
    model: Any, own: npt.NDArray[np.intp], common: Sequence[int], features: int
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the weights and the biases of an ordinary network with the layers of `_scorer()`."""
    layers = [[part.detach().numpy().copy() for part in (layer.weight, layer.bias)] for layer in model]
    (first, first_bias), (second, second_bias), (last, last_bias), (last_second, last_second_bias) = layers
    (actions, count), width = own.shape, len(first_bias)
    hidden = np.zeros((features, actions * width), np.float32)
    output = np.zeros((actions * width, actions), np.float32)
    for action in range(actions):
        block = slice(action * width, (action + 1) * width)
        weights, scores = (last, last_second) if action == actions - 1 else (first[:, count:], second)
        if action < actions - 1:
            hidden[own[action], block] = first[:, :count].T
        hidden[own[-1], block] = weights[:, :count].T
        hidden[common, block] = weights[:, count:].T
        output[block, action] = scores[0]
    biases = (
        np.concatenate([np.tile(first_bias, actions - 1), last_bias]),
        np.concatenate([np.repeat(second_bias, actions - 1), last_second_bias]),
    )
    return (hidden, output), biases
