"""Small networks by gradient descent: distillation of a teacher near its observations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.extras import library
from mlgo_gym.policies.network import Network, Normalization, feature_columns
from mlgo_gym.training.monitor import Advance

Matrix = npt.NDArray[Any]

EXCLUDED_FEATURES = frozenset({"node_count", "edge_count", "is_callee_avail_external", "is_caller_avail_external"})
"""Features that identify the module, and features that are constant within a compile."""

_MIXED_SHARES = (0.05, 0.15, 0.3)
_MAX_LOGIT = 6.0
_LEARNING_RATE = 4e-3
_BATCH = 512


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Size and training of a network.

    Attributes:
        hidden: Widths of the hidden layers.
        steps: Steps of the optimiser (≥ 1).
    """

    hidden: tuple[int, ...] = (64, 32)
    steps: int = 6000


def network_features(names: Sequence[str]) -> tuple[str, ...]:
    """Return the features that networks are trained on."""
    return tuple(name for name in names if name not in EXCLUDED_FEATURES)


def mixed_rows(observations: Matrix, generator: np.random.Generator) -> Matrix:
    """Return three more rows per row: random rows in which some columns come from other random rows."""
    count = len(observations)
    parts = []
    for share in _MIXED_SHARES:
        rows, others = (observations[generator.choice(count, count)] for _ in range(2))
        parts.append(np.where(generator.random(rows.shape) < share, others, rows))
    return np.concatenate(parts)


def distil(
    names: Sequence[str],
    observations: Matrix,
    logits: Callable[[Matrix], npt.NDArray[np.float64]],
    settings: NetworkSettings,
    seed: int,
    advance: Advance,
) -> Network:
    """Return a network with one output that gives the logits of a teacher, and ReLU between its layers.

    The names are those of the observations' columns; the network uses `network_features(names)`. The loss is the
    weighted smooth L1 loss. The same seed gives the same network, whatever else uses PyTorch.
    """
    torch = library("torch", "training networks", "training")
    features = network_features(names)
    columns = feature_columns("the network", features, names)
    normalization = Normalization.fit(observations[:, columns], features)
    rows = np.concatenate([observations, mixed_rows(observations, np.random.default_rng(seed))])
    outputs = np.clip(logits(rows), -_MAX_LOGIT, _MAX_LOGIT)
    # Rows near the border count most, and observed rows more than mixed ones.
    weights = np.where(np.arange(len(rows)) < len(observations), 1.0, 0.5) * (0.3 + np.exp(-np.abs(outputs) / 2))
    inputs = torch.from_numpy(normalization(rows[:, columns].astype(np.float32)))
    targets, factors = (torch.from_numpy(values.astype(np.float32)) for values in (outputs, weights))
    widths = [len(features), *settings.hidden, 1]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [part for pair in pairwise(widths) for part in (torch.nn.Linear(*pair), torch.nn.ReLU())]
            model = torch.nn.Sequential(*layers[:-1])
            optimizer = torch.optim.AdamW(model.parameters(), _LEARNING_RATE, weight_decay=1e-4)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=settings.steps)
            for step in range(settings.steps):
                batch = torch.randint(0, len(rows), (min(_BATCH, len(rows)),))
                errors = torch.nn.functional.smooth_l1_loss(
                    model(inputs[batch])[:, 0], targets[batch], reduction="none"
                )
                loss = (errors * factors[batch]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                if step % 100 == 0 or step == settings.steps - 1:
                    advance(step + 1, loss=float(loss.detach()))
    finally:
        torch.set_num_threads(threads)
    state = {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}
    linear = list(dict.fromkeys(name.partition(".")[0] for name in state))
    return Network.from_state(state, linear, features, activation="relu", normalization=normalization)
