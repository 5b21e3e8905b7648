"""From a teacher to a small network that decides alike, on what was seen and around it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization, feature_columns
from mlgo_gym.training.curves import silent
from mlgo_gym.training.features import Matrix, raw_features

_MIXED = (0.05, 0.15, 0.3)
_MOST_LOGIT = 6.0
_LEARNING_RATE = 4e-3
_BATCH = 512

DEFAULT = "inlining_default"
"""The feature that says what clang itself would do."""


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The network that is trained, and for how long.

    Attributes:
        hidden: the widths of the hidden layers.
        steps: steps of the optimiser.
    """

    hidden: tuple[int, ...] = (64, 32)
    steps: int = 6000


def torch_library() -> Any:
    """Return PyTorch.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtraError("training networks", "training") from error


def mixed_rows(observations: Matrix, generator: np.random.Generator) -> Matrix:
    """Return three more rows for each: others, of whose columns some are taken from others again.

    What the teacher says of these shows the network what lies around the rows that there are.
    """
    count = len(observations)
    parts = []
    for share in _MIXED:
        rows, others = (observations[generator.choice(count, count)] for _ in range(2))
        parts.append(np.where(generator.random(rows.shape) < share, others, rows))
    return np.concatenate(parts)


def distil(
    names: tuple[str, ...],
    observations: Matrix,
    logits: Callable[[Matrix], npt.NDArray[np.float64]],
    settings: NetworkSettings,
    *,
    seed: int = 0,
    note: Callable[[int, float], None] = silent,
) -> Network:
    """Return a network with one output that says what a teacher says.

    Args:
        names: the features, in the order of the columns.
        observations: shape (decisions, features).
        logits: the teacher.
        settings: the network, and for how long it is trained.
        seed: the first weights and the batches.
        note: called with step and loss now and then.

    Returns:
        A network over `raw_features(names)`.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    torch = torch_library()
    generator = np.random.default_rng(seed)
    raw = raw_features(names)
    columns = feature_columns("the network", raw, names)
    normalization = Normalization.fit(observations[:, columns], raw, "log_standard")
    rows = np.concatenate([observations, mixed_rows(observations, generator)])
    wanted = np.clip(logits(rows), -_MOST_LOGIT, _MOST_LOGIT)
    # What lies near the border matters most, and rows that were seen more than mixed ones.
    weights = np.where(np.arange(len(rows)) < len(observations), 1.0, 0.5) * (0.3 + np.exp(-np.abs(wanted) / 2))
    inputs = torch.from_numpy(normalization(rows[:, columns].astype(np.float32)))
    targets, weighted = (torch.from_numpy(each.astype(np.float32)) for each in (wanted, weights))

    def loss(model: Any, chosen: Any) -> Any:
        errors = torch.nn.functional.smooth_l1_loss(model(inputs[chosen])[:, 0], targets[chosen], reduction="none")
        return (errors * weighted[chosen]).mean()

    model = fit(len(raw), 1, settings, len(rows), loss, seed=seed, note=note)
    return to_network(model, raw, normalization)


def fit(
    inputs: int,
    outputs: int,
    settings: NetworkSettings,
    rows: int,
    loss: Callable[[Any, Any], Any],
    *,
    seed: int = 0,
    note: Callable[[int, float], None] = silent,
) -> Any:
    """Return a PyTorch network that was trained; the same one for the same seed, whatever else uses PyTorch.

    Args:
        inputs: the number of inputs.
        outputs: the number of outputs.
        settings: hidden layers and steps.
        rows: how many rows batches are drawn from.
        loss: takes the network and the numbers of the rows of a batch.
        seed: the first weights and the batches.
        note: called with step and loss now and then.
    """
    torch = torch_library()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[Any] = []
            widths = [inputs, *settings.hidden, outputs]
            for before, after in pairwise(widths):
                layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
            model = torch.nn.Sequential(*layers[:-1])
            optimizer = torch.optim.AdamW(model.parameters(), _LEARNING_RATE, weight_decay=1e-4)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=settings.steps)
            for step in range(settings.steps):
                value = loss(model, torch.randint(0, rows, (min(_BATCH, rows),)))
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                schedule.step()
                if step % 100 == 0 or step == settings.steps - 1:
                    note(step, float(value.detach()))
    finally:
        torch.set_num_threads(threads)
    return model


def to_network(model: Any, features: tuple[str, ...], normalization: Normalization | None) -> Network:
    """Return the `Network` of a PyTorch `Sequential` of `Linear` and `ReLU`."""
    state = {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}
    layers = list(dict.fromkeys(name.partition(".")[0] for name in state))
    return Network.from_state(state, layers, features, activation="relu", normalization=normalization)


def with_margin(network: Network, margin: float) -> Network:
    """Return the network that is with clang unless the given one is surer than a margin.

    `inlining_default` is carried through the layers as one more unit of each, 0 or 1, so that the output is that of
    the given network, plus the margin where clang inlines and minus the margin where it does not.

    Args:
        network: one output and ReLU between its layers; `inlining_default` among its features.
        margin: how far beyond 0 the output must be for a deviation; 0 returns an equal network.

    Raises:
        MlgoError: the network is of another kind, or the margin is negative.
    """
    if network.outputs != 1 or network.activation != "relu" or DEFAULT not in network.features or not margin >= 0:
        raise MlgoError(
            f"a margin of 0 or more, and a network with ReLU, one output and the feature {DEFAULT} were wanted; found "
            f"{margin:g}, {network.activation}, {network.outputs} outputs and {', '.join(network.features)}"
        )
    if margin == 0:
        return network
    place = network.features.index(DEFAULT)
    probe = np.zeros((2, len(network.features)), np.float32)
    probe[1, place] = 1
    low, high = (probe if network.normalization is None else network.normalization(probe))[:, place].astype(np.float64)
    weights, biases = [], []
    last = len(network.weights) - 1
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        inputs, outputs = weight.shape
        wide = np.zeros((inputs + (number > 0), outputs + (number < last)), np.float32)
        wide[:inputs, :outputs] = weight
        slope, shift = (1.0, 0.0) if number else (1 / (high - low), -low / (high - low))
        if number == last:
            slope, shift = slope * 2 * margin, shift * 2 * margin - margin
        carrier = inputs if number else place
        wide[carrier, -1] += np.float32(slope)
        shifted = np.append(bias, np.float32(0)) if number < last else bias.copy()
        shifted[-1] += np.float32(shift)
        weights.append(wide)
        biases.append(shifted)
    return Network(network.features, tuple(weights), tuple(biases), "relu", network.normalization)
