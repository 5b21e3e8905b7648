"""Imitation of labels: boosted trees learn from the labels, and a small network from the trees.

For inlining the trees predict the smaller action. For evictions each tried column of a label is an example: the column
against clang's own choice, and the change of the function's cost in percent. Rare functions count less than hot ones.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus.training_digests import SHORT_DIGEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.policies.mlp import COLUMN_FEATURES, INPUTS, column_inputs
from mlgo_gym.policies.network import Floats, Network, Normalization, feature_columns
from mlgo_gym.training.checkpoint_choice import Base, with_margin
from mlgo_gym.training.distillation import Matrix, NetworkSettings, distil, network_features, regression, torch_library
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.monitor import Monitor

# The same examples and the same seed give the same trees.
_REPEATABLE = {"learning_rate": 0.05, "bagging_freq": 1, "verbose": -1, "deterministic": True, "force_row_wise": True}
_INLINING_TREES = {
    **_REPEATABLE,
    "objective": "binary",
    "num_leaves": 15,
    "min_child_samples": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "lambda_l2": 1.0,
}
_EVICTION_TREES = {
    **_REPEATABLE,
    "objective": "regression",
    "num_leaves": 4,
    "min_child_samples": 100,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.6,
    "lambda_l2": 20.0,
}

EVICTION_MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
"""The margins of evictions to choose from, in percent of a function's cost."""

_LARGEST = 2.0
"""The largest change in percent that the trees learn. Without it, and with more leaves, more modules get worse."""

_SHARE_EXPONENT = 0.25
_NEAR = 0.15  # percent; columns that may be better than clang's own choice
_MAX_ROWS = 150_000

Logits = Callable[[Matrix], npt.NDArray[np.float64]]
"""Returns the logits of inlining, float64 of shape (decisions,), of observations; above 0 inlining is smaller."""


@dataclass(frozen=True)
class TreeSettings:
    """Boosted trees, and the network that they are distilled into.

    Attributes:
        models: Number of averaged models of trees (≥ 1).
        trees: Trees per model (≥ 1).
        network: Size and training of the network.
        seed: Source of the trees, the first weights and the batches.
        threads: Threads of the trees (≥ 1).
    """

    models: int = 12
    trees: int = 300
    network: NetworkSettings = field(default_factory=lambda: NetworkSettings((128, 64), 20_000))
    seed: int = 0
    threads: int = 1

    def averaged_trees(self, inputs: Matrix, targets: Matrix, weights: Matrix, parameters: Mapping[str, Any]) -> Logits:
        """Return the mean raw prediction of the models, fitted to weighted targets."""
        lightgbm = library("lightgbm", "the trees of imitation", "training")
        data = lightgbm.Dataset(inputs, label=targets, weight=weights)
        parameters = {**parameters, "num_threads": self.threads}
        seeds = range(self.seed, self.seed + self.models)
        fitted = [lightgbm.train({**parameters, "seed": seed}, data, self.trees) for seed in seeds]

        def predict(rows: Matrix) -> npt.NDArray[np.float64]:
            mean: npt.NDArray[np.float64] = np.mean([model.predict(rows, raw_score=True) for model in fitted], axis=0)
            return mean

        return predict


@dataclass(frozen=True)
class TreeImitation(TreeSettings):
    """Fits boosted trees to labels of inlining and distils them into a network.

    Attributes:
        base: Policy that the network deviates from: `default` or `threshold:K`.
    """

    base: str = "default"

    def settings(self) -> dict[str, Any]:
        """Return everything that the network depends on but the labels, JSON-able."""
        return {name: value for name, value in asdict(self).items() if name != "threads"}

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        """Return a network with one output, the logit of inlining; the same for the same labels.

        The result `network` of the monitor has the numbers of `labels` and `modules`, and `estimates`: the mean
        relative change of the modules according to the labels, for the base, the best action of each label, the trees
        and the network.

        Args:
            rounds: The labels.
            monitor: Receives the progress and the result.
            exclude: `Module.source_digest()` of modules whose labels are not used.

        Raises:
            MissingExtraError: LightGBM or PyTorch is not installed.
            MlgoError: no label is left, all are 0, or digests are unknown.
        """
        labels = without_modules(joined(rounds), exclude)
        with monitor.stage("network", self.network.steps) as advance:
            trees = self.inlining_trees(labels)
            network = distil(labels.features, labels.observations, trees, self.network, seed=self.seed, advance=advance)
        base = Base.parse(self.base)
        columns = [labels.features.index(name) for name in network.features]
        answers = {
            base.name: base.answers(labels.features, labels.observations),
            "best": np.where(labels.bytes < 0, 1, np.where(labels.bytes > 0, 0, labels.answers)),
            "trees": trees(labels.observations) > 0,
            "network": network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0,
        }
        estimates = {name: estimate(labels, actions) for name, actions in answers.items()}
        monitor.record("network", **_sizes(labels), estimates=estimates)
        return network

    def inlining_trees(self, labels: Labels) -> Logits:
        """Return trees that predict the smaller action, fitted to the labels that are not 0; all 0 is an error."""
        informative = np.flatnonzero(labels.bytes)
        if not len(informative):
            raise MlgoError(f"expected labels other than 0, got {len(labels)} labels of 0; label more modules")
        inputs = tree_features(labels.features, labels.observations[informative])
        targets, weights = (labels.bytes[informative] < 0).astype(int), labels.weights[informative]
        predict = self.averaged_trees(inputs, targets, weights, _INLINING_TREES)
        return lambda observations: predict(tree_features(labels.features, observations))

    def with_margin(self, network: Network, margin: float) -> Network:
        """Return the network with a margin of its logit over the base in its layers."""
        return with_margin(network, margin, self.base)


def _sizes(labels: Labels) -> dict[str, int]:
    return {"labels": len(labels), "modules": len(np.unique(labels.groups))}


def without_modules(labels: Labels, digests: Collection[str]) -> Labels:
    """Return the labels of other modules; an MlgoError if no label is left or a `Module.source_digest()` is unknown."""
    if not digests:
        return labels
    if not all(labels.digests.tolist()):
        raise MlgoError("expected labels with the digests of their modules, got some without; label the corpus again")
    excluded = {digest[:SHORT_DIGEST] for digest in digests}
    others = labels.select([digest[:SHORT_DIGEST] not in excluded for digest in labels.digests.tolist()])
    if not len(others):
        raise MlgoError("expected labels of training modules, got only excluded ones; label modules of the split train")
    return others


def tree_features(names: Sequence[str], observations: Matrix) -> npt.NDArray[np.float64]:
    """Return the inputs of the trees: signed logarithms of the features, and relations that no split expresses."""
    values = np.asarray(observations, np.float64)

    def column(name: str) -> npt.NDArray[np.float64]:
        return values[:, feature_columns("the trees", [name], names)[0]]

    above = column("cost_estimate") - column("threshold")
    relations = [
        above,
        column("cost_estimate") + column("last_call_to_static_bonus"),
        column("unsimplified_common_instructions") - column("simplified_instructions"),
        column("callsite_cost") + column("call_penalty"),
    ]
    logarithms = np.stack([*map(column, network_features(names)), *relations], axis=1)
    flags = [np.clip(above, -150, 150) / 30, column("callee_users") == 1, column("last_call_to_static_bonus") != 0]
    return np.concatenate([np.sign(logarithms) * np.log1p(np.abs(logarithms)), np.stack(flags, axis=1)], axis=1)


def estimate(labels: Labels, answers: Matrix) -> float:
    """Return the mean relative change of the modules with other answers, 0 or 1, as if decisions were independent."""
    changes = (answers.astype(np.int64) - labels.answers) * labels.bytes * labels.share / labels.text
    _, module = np.unique(labels.groups, return_inverse=True)
    # Clipped, so that the labels of a few modules do not dominate.
    return float(np.clip(np.bincount(module, changes), -0.08, 0.08).mean())


class Examples(NamedTuple):
    """Inputs of the network for columns against clang's own choice, of shape (examples, inputs).

    The change of the function's cost is in percent, and NaN for a column that was not tried.
    """

    inputs: Floats
    change: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]

    @property
    def tried(self) -> npt.NDArray[np.bool_]:
        """Which examples were tried."""
        return ~np.isnan(self.change)


def eviction_examples(labels: Labels) -> Examples:
    """Return an example for each legal column of each label that is not clang's own choice.

    Equal columns are one example, with the mean of their changes weighted by their shares, and the largest share.
    """
    columns = labels.costs.shape[1]
    names = [f"{feature}[{column}]" for column in range(columns) for feature in COLUMN_FEATURES]
    places = feature_columns("evictions", [*names, "progress"], labels.features)
    inputs: dict[bytes, Floats] = {}
    outcomes: dict[bytes, list[tuple[float, float]]] = defaultdict(list)
    for label in range(len(labels)):
        values = labels.observations[label, places].astype(np.float32)
        costs, default = labels.costs[label], int(labels.defaults[label])
        legal = np.flatnonzero(~np.isposinf(costs))
        features = values[:-1].reshape(columns, len(COLUMN_FEATURES))
        rows = column_inputs(features, legal, default, float(values[-1]))
        differences = 100 * (costs[legal[legal != default]] - costs[default]) / labels.prices[label]
        for row, change in zip(rows, differences, strict=True):
            key = row.tobytes() + bytes([int(np.isnan(change))])
            inputs[key] = row
            outcomes[key].append((change, labels.prices[label] / labels.text[label]))
    merged = [np.array(outcomes[key]).T for key in inputs]
    changes = [np.average(change, weights=share) for change, share in merged]
    return Examples(np.array([*inputs.values()], np.float32), np.array(changes), np.array([max(s) for _, s in merged]))


def rates_columns(labels: Labels) -> bool:
    """Return whether labels are of evictions, by flips: with the prices of functions."""
    return f"{COLUMN_FEATURES[0]}[0]" in labels.features and bool((labels.prices != labels.text).any())


class EvictionImitation(TreeSettings):
    """Fits boosted trees to the changes of tried columns, and distils them into a network."""

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        """Return a network for `EvictionPolicy`, without a margin; arguments and errors are those of `TreeImitation`.

        The result `network` of the monitor has the numbers of `labels`, `modules` and tried `columns`, and the
        `correlation` of the network with the trees.
        """
        labels = without_modules(joined(rounds), exclude)
        examples = eviction_examples(labels)
        tried = examples.tried
        if not tried.any():
            raise MlgoError(f"expected labels with tried columns, got {len(labels)} labels without; label the corpus")
        torch_library()
        chance, count = np.random.default_rng(self.seed), len(examples.inputs)
        rows = examples.inputs[np.sort(chance.choice(count, min(count, _MAX_ROWS), replace=False))]
        changes = np.clip(examples.change[tried], -_LARGEST, _LARGEST)
        shares = examples.share[tried] ** _SHARE_EXPONENT
        predict = self.averaged_trees(examples.inputs[tried], changes, shares, _EVICTION_TREES)
        targets = np.clip(predict(rows), -_LARGEST, _LARGEST)
        # Columns near clang's own choice, or better, count most.
        weights = 1.0 + 3.0 * (targets < _NEAR)
        normalization, network = Normalization.fit(rows, INPUTS, "standard"), self.network
        with monitor.stage("network", network.steps) as advance:
            fitted = regression(
                *(rows, targets, weights, normalization, network), batch=1024, beta=0.2, seed=self.seed, advance=advance
            )
        outputs = fitted(rows)[:, 0]
        # Few labels can make trees of one leaf.
        correlation = float(np.corrcoef(outputs, targets)[0, 1]) if np.ptp(outputs) * np.ptp(targets) > 0 else 0.0
        monitor.record("network", **_sizes(labels), columns=int(tried.sum()), correlation=round(correlation, 4))
        return fitted

    def with_margin(self, network: Network, margin: float) -> Network:
        """Return the network with a margin: the gain in percent of the function's cost that a deviation needs."""
        *hidden, last = network.biases
        return replace(network, biases=(*hidden, last + np.float32(margin)))
