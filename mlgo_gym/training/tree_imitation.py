"""Imitation of labels of inlining: boosted trees predict the smaller action, and a small network learns from them."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus.training_digests import SHORT_DIGEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.policies.network import Network, feature_columns
from mlgo_gym.training.distillation import Matrix, NetworkSettings, distil, network_features
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.margin import Base
from mlgo_gym.training.monitor import Monitor

# The same examples and the same seed give the same trees.
_TREES = {
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
    "learning_rate": 0.05,
    "bagging_freq": 1,
    "objective": "binary",
    "num_leaves": 15,
    "min_child_samples": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "lambda_l2": 1.0,
}

Logits = Callable[[Matrix], npt.NDArray[np.float64]]
"""Returns the logits of inlining, float64 of shape (decisions,), of observations; above 0 inlining is smaller."""


@dataclass(frozen=True)
class TreeImitation:
    """Fits boosted trees to labels of inlining and distils them into a network.

    Attributes:
        models: Number of averaged models of trees (≥ 1).
        trees: Trees per model (≥ 1).
        network: Size and training of the network.
        seed: Source of the trees, the first weights and the batches.
        threads: Threads of the trees (≥ 1).
        base: Policy that the network deviates from: `default` or `threshold:K`.
    """

    models: int = 12
    trees: int = 300
    network: NetworkSettings = field(default_factory=lambda: NetworkSettings((128, 64), 20_000))
    seed: int = 0
    threads: int = 1
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
            network = distil(labels.features, labels.observations, trees, self.network, self.seed, advance)
        base = Base.parse(self.base)
        columns = [labels.features.index(name) for name in network.features]
        answers = {
            base.name: base.answers(labels.features, labels.observations),
            "best": np.where(labels.bytes < 0, 1, np.where(labels.bytes > 0, 0, labels.answers)),
            "trees": trees(labels.observations) > 0,
            "network": network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0,
        }
        estimates = {name: estimate(labels, actions) for name, actions in answers.items()}
        monitor.record("network", labels=len(labels), modules=len(np.unique(labels.groups)), estimates=estimates)
        return network

    def inlining_trees(self, labels: Labels) -> Logits:
        """Return the mean of the models, fitted to the labels that are not 0; all 0 is an error."""
        informative = np.flatnonzero(labels.bytes)
        if not len(informative):
            raise MlgoError(f"expected labels other than 0, got {len(labels)} labels of 0; label more modules")
        inputs = tree_features(labels.features, labels.observations[informative])
        targets, weights = (labels.bytes[informative] < 0).astype(int), labels.weights[informative]
        lightgbm = library("lightgbm", "the trees of imitation", "training")
        data = lightgbm.Dataset(inputs, label=targets, weight=weights)
        parameters = {**_TREES, "num_threads": self.threads}
        seeds = range(self.seed, self.seed + self.models)
        fitted = [lightgbm.train({**parameters, "seed": seed}, data, self.trees) for seed in seeds]

        def logits(observations: Matrix) -> npt.NDArray[np.float64]:
            rows = tree_features(labels.features, observations)
            mean: npt.NDArray[np.float64] = np.mean([model.predict(rows, raw_score=True) for model in fitted], axis=0)
            return mean

        return logits


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
