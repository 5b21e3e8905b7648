"""From a teacher to a small network that decides like it, on what was seen and on what is similar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.extras import library
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization, feature_columns
from mlgo_gym.training.curves import silent
from mlgo_gym.training.features import Matrix, raw_features

_MIXED = (0.05, 0.15, 0.3)
_MOST_LOGIT = 6.0
_LEARNING_RATE = 4e-3
_BATCH = 512


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
    return library("torch", "training networks", "training")


def mixed_rows(observations: Matrix, generator: np.random.Generator) -> Matrix:
    """Return three more rows for each: random rows in which some columns come from other rows.

    The teacher's answers to these show the network what lies around the real rows.
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
    """Return a network with one output that answers as a teacher does.

    Args:
        names: the features, in the order of the columns.
        observations: shape (decisions, features).
        logits: the teacher.
        settings: the network, and for how long it is trained.
        seed: the first weights and the batches.
        note: called with step and loss from time to time.

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
    """Return a trained PyTorch network; the same for the same seed, whatever else uses PyTorch.

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
