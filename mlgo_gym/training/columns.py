"""Networks for actions that have features of their own: every action is scored by the same weights.

At a decision of the eviction advisor each register has nineteen features, and so has the candidate, which is the last
column. A network that sees all of them in a row would have to learn for each register anew what a heavy live range is.
Here one small network scores a column from its own features, those of the last column, and those that all have in
common; it is then written out as an ordinary `Network`, most of whose weights are 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import torch_library

_ELEMENT = re.compile(r"(.+)\[(\d+)\]")
_LEARNING_RATE = 4e-3
_BATCH = 128  # each row is as many as there are actions

Loss = Callable[[Any, Any], Any]
"""Takes the logits of the rows of a batch, and the numbers of these rows."""


def column_features(names: Sequence[str], actions: int) -> tuple[npt.NDArray[np.intp], list[int]] | None:
    """Return where the features of each action stand, and those that all have in common.

    Args:
        names: the features; `NAME[i]` is one of action i, if there is one for each.
        actions: how many actions there are.

    Returns:
        An array of shape (actions, features of each), and a list; None where actions have no features of their own.
    """
    found: dict[str, dict[int, int]] = {}
    common = []
    for place, name in enumerate(names):
        element = _ELEMENT.fullmatch(name)
        if element is None:
            common.append(place)
        else:
            found.setdefault(element[1], {})[int(element[2])] = place
    if not found or any(sorted(places) != list(range(actions)) for places in found.values()):
        return None
    return np.array([[places[action] for places in found.values()] for action in range(actions)], np.intp), common


def pooled_normalization(
    observations: npt.NDArray[np.float32], names: Sequence[str], own: npt.NDArray[np.intp]
) -> Normalization:
    """Return a normalization that treats a feature of one action as that of any other.

    Args:
        observations: shape (decisions, features).
        names: the features.
        own: what `column_features()` gives.
    """
    each = Normalization.fit(observations, names, "log_standard")
    center, scale = each.center.copy(), each.scale.copy()
    pooled = observations[:, own].reshape(-1, own.shape[1])
    shared = Normalization.fit(pooled, [str(number) for number in range(own.shape[1])], "log_standard")
    center[own], scale[own] = shared.center, shared.scale
    return Normalization(each.method, each.names, center, scale, each.quantiles)


def fit_columns(
    inputs: npt.NDArray[np.float32],
    own: npt.NDArray[np.intp],
    common: Sequence[int],
    loss: Loss,
    *,
    width: int,
    steps: int,
    seed: int = 0,
    note: Callable[[int, float], None] = silent,
) -> tuple[list[npt.NDArray[np.float32]], list[npt.NDArray[np.float32]]]:
    """Train one scorer for all actions, and return it as the weights and biases of an ordinary network.

    Args:
        inputs: normalized features, shape (decisions, features).
        own: what `column_features()` gives.
        common: likewise.
        loss: what is to become small.
        width: the hidden units for each action.
        steps: steps of the optimiser.
        seed: the first weights and the batches.
        note: called with step and loss now and then.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    torch = torch_library()
    actions, count = own.shape
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            scorer = torch.nn.ModuleList([torch.nn.Linear(2 * count + len(common), width), torch.nn.Linear(width, 1)])
            # The last action is another kind of thing than those before it.
            last = torch.nn.Linear(count + len(common), width), torch.nn.Linear(width, 1)
            parameters = [*scorer.parameters(), *(part for layer in last for part in layer.parameters())]
            optimizer = torch.optim.AdamW(parameters, _LEARNING_RATE, weight_decay=1e-4)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=steps)
            rows = torch.from_numpy(inputs)
            places = torch.from_numpy(own)
            for step in range(steps):
                chosen = torch.randint(0, len(inputs), (min(_BATCH, len(inputs)),))
                batch = rows[chosen]
                columns, shared = batch[:, places], batch[:, list(common)]
                candidate = torch.cat([columns[:, -1], shared], 1)
                others = torch.cat([columns[:, :-1], candidate[:, None].expand(-1, actions - 1, -1)], 2)
                scores = scorer[1](torch.relu(scorer[0](others)))[..., 0]
                value = loss(torch.cat([scores, last[1](torch.relu(last[0](candidate)))], 1), chosen)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                schedule.step()
                if step % 100 == 0 or step == steps - 1:
                    note(step, float(value.detach()))
    finally:
        torch.set_num_threads(threads)
    layers = [[part.detach().numpy().copy() for part in (layer.weight, layer.bias)] for layer in (*scorer, *last)]
    return _written_out(layers, own, common, inputs.shape[1], width)


def _written_out(
    layers: list[list[npt.NDArray[np.float32]]],
    own: npt.NDArray[np.intp],
    common: Sequence[int],
    features: int,
    width: int,
) -> tuple[list[npt.NDArray[np.float32]], list[npt.NDArray[np.float32]]]:
    (first, first_bias), (second, second_bias), (last, last_bias), (last_second, last_second_bias) = layers
    actions, count = own.shape
    hidden = np.zeros((features, actions * width), np.float32)
    output = np.zeros((actions * width, actions), np.float32)
    for action in range(actions):
        block = slice(action * width, (action + 1) * width)
        if action < actions - 1:
            hidden[own[action], block] = first[:, :count].T
            hidden[own[-1], block] = first[:, count : 2 * count].T
            hidden[common, block] = first[:, 2 * count :].T
            output[block, action] = second[0]
        else:
            hidden[own[-1], block] = last[:, :count].T
            hidden[common, block] = last[:, count:].T
            output[block, action] = last_second[0]
    biases = [
        np.concatenate([np.tile(first_bias, actions - 1), last_bias]),
        np.concatenate([np.repeat(second_bias, actions - 1), last_second_bias]),
    ]
    return [hidden, output], biases


def columns_network(
    names: Sequence[str],
    normalization: Normalization,
    layers: tuple[list[npt.NDArray[np.float32]], list[npt.NDArray[np.float32]]],
) -> Network:
    """Return the network of what `fit_columns()` has learned."""
    weights, biases = layers
    return Network(tuple(names), tuple(weights), tuple(biases), "relu", normalization)
