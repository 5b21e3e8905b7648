"""Imitation of eviction labels: boosted trees predict the change of the function's cost, and a small network the trees.

A label has the cost of some columns of a decision. Each is an example: the column against clang's own choice, and the
change of the function's cost in percent. Rare functions of a module count less than hot ones.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.policies.eviction import COLUMN_FEATURES, INPUTS, column_inputs
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats, Normalization, feature_columns
from mlgo_gym.training.distillation import NetworkSettings, gradient_descent, perceptron, to_network, torch_library
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.tree_imitation import REPEATABLE_TREES, without_modules

_TREES = {
    **REPEATABLE_TREES,
    "objective": "regression",
    "num_leaves": 4,
    "min_child_samples": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.6,
    "lambda_l2": 20.0,
}
_LARGEST = 2.0
"""The largest change in percent that the trees learn. Without it, and with more leaves, more modules get worse."""

MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
"""The margins to choose from, in percent of a function's cost."""

_SHARE_EXPONENT = 0.25
_NEAR = 0.15  # percent; columns that may be better than clang's own choice
_MAX_ROWS = 150_000
_MAX_OUTPUT = 2.0
_BATCH = 1024


class Examples(NamedTuple):
    """Examples of columns against clang's own choice.

    Attributes:
        inputs: Inputs of the network, float32 of shape (examples, inputs).
        change: Change of the function's cost in percent; NaN for a column that was not tried.
        share: Share of the function in the cost of its module.
    """

    inputs: Floats
    change: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]

    @property
    def tried(self) -> npt.NDArray[np.bool_]:
        """Which examples were tried."""
        return ~np.isnan(self.change)


def eviction_examples(labels: Labels) -> Examples:
    """Return an example for each legal column of each label that is not clang's own choice; repetitions are dropped."""
    columns = labels.costs.shape[1]
    names = [f"{feature}[{column}]" for column in range(columns) for feature in COLUMN_FEATURES]
    places = feature_columns("evictions", [*names, "progress"], labels.features)
    inputs, changes, shares = [], [], []
    known: set[bytes] = set()
    for number in range(len(labels)):
        values = labels.observations[number, places].astype(np.float32)
        costs, default = labels.costs[number], int(labels.defaults[number])
        legal = np.flatnonzero(~np.isposinf(costs))
        features = values[:-1].reshape(columns, len(COLUMN_FEATURES))
        rows = column_inputs(features, legal, default, float(values[-1]))
        change = 100 * (costs[legal[legal != default]] - costs[default]) / labels.prices[number]
        share = labels.prices[number] / labels.text[number]
        for row, each in zip(rows, change, strict=True):
            key = row.tobytes() + bytes([int(np.isnan(each))])
            if key not in known:
                known.add(key)
                inputs.append(row)
                changes.append(each)
                shares.append(share)
    return Examples(np.array(inputs, np.float32), np.array(changes), np.array(shares))


def rates_columns(labels: Labels) -> bool:
    """Return whether labels are of evictions, by flips: with the prices of functions."""
    names = frozenset(labels.features)
    return f"{COLUMN_FEATURES[0]}[0]" in names and bool((labels.prices != labels.text).any())


@dataclass(frozen=True, slots=True)
class EvictionImitation:
    """Fits boosted trees to the changes of tried columns, and distils them into a network.

    Attributes:
        models: Number of averaged models of trees (≥ 1).
        trees: Trees per model (≥ 1).
        network: Size and training of the network.
        seed: Source of the trees, the first weights and the batches.
        threads: Threads of the trees (≥ 1).
    """

    models: int = 12
    trees: int = 200
    network: NetworkSettings = field(default_factory=lambda: NetworkSettings((48, 24), 6000))
    seed: int = 0
    threads: int = 1

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        """Return a network for `EvictionPolicy`, without a margin.

        The result `network` of the monitor has the numbers of `labels`, `modules` and tried `columns`, and the
        `correlation` of the network with the trees.

        Args:
            rounds: The labels.
            monitor: Receives the progress and the result.
            exclude: `training_digest()` of modules whose labels are not used.

        Raises:
            MissingExtraError: LightGBM or PyTorch is not installed.
            MlgoError: the labels have no tried column, no label is left, or digests are unknown.
        """
        labels = joined(rounds)
        if exclude:
            labels = without_modules(labels, exclude)
        examples = eviction_examples(labels)
        tried = examples.tried
        if not tried.any():
            raise MlgoError(f"expected labels with tried columns, got {len(labels)} labels without; label the corpus")
        chance = np.random.default_rng(self.seed)
        count = len(examples.inputs)
        rows = examples.inputs[np.sort(chance.choice(count, min(count, _MAX_ROWS), replace=False))]
        targets = self._tree_outputs(examples.inputs[tried], examples.change[tried], examples.share[tried], rows)
        normalization = Normalization.fit(rows, INPUTS, "standard")
        torch = torch_library()
        values, wanted = torch.from_numpy(normalization(rows)), torch.from_numpy(targets.astype(np.float32))
        # Columns near clang's own choice, or better, count most.
        weights = 1.0 + 3.0 * (wanted < _NEAR)

        def loss(model: Any, batch: Any) -> Any:
            outputs = model(values[batch])[:, 0]
            errors = torch.nn.functional.smooth_l1_loss(outputs, wanted[batch], reduction="none", beta=0.2)
            return (errors * weights[batch]).mean()

        build = perceptron([len(INPUTS), *self.network.hidden, 1])
        with monitor.stage("network", self.network.steps) as advance:
            model = gradient_descent(
                build, loss, len(rows), self.network.steps, batch=_BATCH, seed=self.seed, advance=advance
            )
        network = to_network(model, INPUTS, normalization)
        outputs = network(rows)[:, 0]
        # Few labels can make trees of one leaf.
        correlation = float(np.corrcoef(outputs, targets)[0, 1]) if np.ptp(outputs) * np.ptp(targets) > 0 else 0.0
        monitor.record(
            "network",
            labels=len(labels),
            modules=len(np.unique(labels.groups)),
            columns=int(tried.sum()),
            correlation=round(correlation, 4),
        )
        return network

    def with_margin(self, network: Network, margin: float) -> Network:
        """Return the network with a margin: the gain in percent of the function's cost that a deviation needs."""
        *hidden, last = network.biases
        return replace(network, biases=(*hidden, last + np.float32(margin)))

    def _tree_outputs(
        self, inputs: Floats, change: npt.NDArray[np.float64], share: npt.NDArray[np.float64], rows: Floats
    ) -> npt.NDArray[np.float64]:
        """Return the mean prediction of trees, fitted to some examples, for some rows."""
        lightgbm = library("lightgbm", "the trees of imitation", "training")
        total = np.zeros(len(rows))
        for number in range(self.models):
            data = lightgbm.Dataset(inputs, label=np.clip(change, -_LARGEST, _LARGEST), weight=share**_SHARE_EXPONENT)
            parameters = {**_TREES, "seed": self.seed + number, "num_threads": self.threads}
            total += lightgbm.train(parameters, data, self.trees).predict(rows)
        return np.clip(total / self.models, -_MAX_OUTPUT, _MAX_OUTPUT)
