"""Imitation of inlining labels: boosted trees predict the smaller action and are distilled into a small network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus.training_digests import SHORT_DIGEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import feature_columns
from mlgo_gym.storage.cache import key_of, write_atomically
from mlgo_gym.training.distillation import Matrix, NetworkSettings, distil, network_features
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.margin import Base, with_margin
from mlgo_gym.training.monitor import Advance, Monitor

REPEATABLE_TREES = {
    "learning_rate": 0.05,
    "bagging_freq": 1,
    "verbose": -1,
    "deterministic": True,
    "force_row_wise": True,
}
"""Parameters of all trees: the same examples and the same seed give the same trees."""

_TREES = {
    **REPEATABLE_TREES,
    "objective": "binary",
    "num_leaves": 15,
    "min_child_samples": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "lambda_l2": 1.0,
}

Logits = Callable[[Matrix], npt.NDArray[np.float64]]
"""Returns the logits of inlining, float64 of shape (decisions,), of observations; above 0 inlining is smaller."""


@dataclass(frozen=True, slots=True)
class TreeImitation:
    """Fits boosted trees to labels and distils them into a network.

    Attributes:
        models: Number of averaged models of trees (≥ 1).
        trees: Trees per model (≥ 1).
        network: Size and training of the network.
        base: Policy that the network deviates from: `default` or `threshold:K`.
        seed: Source of the trees, the first weights and the batches.
        threads: Threads of the trees (≥ 1).
        cache: Folder that keeps networks, so that an interrupted run does not fit them again. Default: none.
    """

    models: int = 12
    trees: int = 300
    network: NetworkSettings = field(default_factory=lambda: NetworkSettings((128, 64), 20_000))
    base: str = "default"
    seed: int = 0
    threads: int = 1
    cache: Path | None = None

    def settings(self) -> dict[str, Any]:
        """Return everything that the network depends on but the labels, JSON-able."""
        return {name: value for name, value in asdict(self).items() if name not in ("threads", "cache")}

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        """Return a network with one output, the logit of inlining; the same for the same labels.

        The result `network` of the monitor has the numbers of `labels` and `modules`, and `estimates`: the mean
        relative change of the modules according to the labels, for the base, the best action of each label, the trees
        and the network.

        Args:
            rounds: The labels.
            monitor: Receives the progress and the result.
            exclude: `training_digest()` of modules whose labels are not used.

        Raises:
            MissingExtraError: LightGBM or PyTorch is not installed.
            MlgoError: no label is left, all are 0, or digests are unknown.
        """
        labels = joined(rounds)
        if exclude:
            labels = without_modules(labels, exclude)
        with monitor.stage("network", self.network.steps) as advance:
            if self.cache is None:
                network, facts = self._fit(labels, advance)
            else:
                file = self.cache / f"{key_of(_digest(labels), self.settings())[:16]}.safetensors"
                network, facts = _cached(file, lambda: self._fit(labels, advance))
        monitor.record("network", **facts)
        return network

    def with_margin(self, network: Network, margin: float) -> Network:
        """Return the network with a margin of its logit over the base in its layers."""
        return with_margin(network, margin, self.base)

    def _fit(self, labels: Labels, advance: Advance) -> tuple[Network, dict[str, Any]]:
        trees = boosted_trees(labels, self.models, self.trees, seed=self.seed, threads=self.threads)
        network = distil(labels.features, labels.observations, trees, self.network, seed=self.seed, advance=advance)
        base = Base.parse(self.base)
        columns = [labels.features.index(name) for name in network.features]
        answers = {
            base.name: base.answers(labels.features, labels.observations),
            "best": np.where(labels.bytes < 0, 1, np.where(labels.bytes > 0, 0, labels.answers)),
            "trees": trees(labels.observations) > 0,
            "network": network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0,
        }
        estimates = {name: estimate(labels, chosen) for name, chosen in answers.items()}
        return network, {"labels": len(labels), "modules": len(np.unique(labels.groups)), "estimates": estimates}


def without_modules(labels: Labels, digests: Collection[str]) -> Labels:
    """Return the labels of the modules whose `training_digest()` is not among some.

    Raises:
        MlgoError: no label is left, or digests are unknown.
    """
    if not all(labels.digests.tolist()):
        raise MlgoError("expected labels with the digests of their modules, got some without; label the corpus again")
    excluded = {digest[:SHORT_DIGEST] for digest in digests}
    chosen = labels.select([digest[:SHORT_DIGEST] not in excluded for digest in labels.digests.tolist()])
    if not len(chosen):
        raise MlgoError("expected labels of training modules, got only excluded ones; label modules of the split train")
    return chosen


def _digest(labels: Labels) -> str:
    digest = hashlib.sha256(json.dumps(labels.features).encode())
    for part in (labels.observations, labels.answers, labels.costs, labels.text, labels.share, labels.groups):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _cached(file: Path, fit: Callable[[], tuple[Network, dict[str, Any]]]) -> tuple[Network, dict[str, Any]]:
    """Return the network of a file and the facts beside it, from an earlier run or newly fitted."""
    card = file.with_suffix(".json")
    if card.exists() and file.exists():
        facts = json.loads(card.read_bytes())
        if facts["sha256"] == file_digest(file):
            return Network.load(file), facts
    network, facts = fit()
    file.parent.mkdir(parents=True, exist_ok=True)
    network.save(file)
    facts["sha256"] = file_digest(file)
    write_atomically(card, (json.dumps(facts, indent=1) + "\n").encode())
    return network, facts


def boosted_trees(labels: Labels, models: int, trees: int, *, seed: int = 0, threads: int = 1) -> Logits:
    """Return the mean of several models of boosted trees, fitted to the labels that are not 0.

    Raises:
        MissingExtraError: LightGBM is not installed.
        MlgoError: all labels are 0.
    """
    lightgbm = library("lightgbm", "the trees of imitation", "training")
    informative = np.flatnonzero(labels.bytes)
    if not len(informative):
        raise MlgoError(f"expected labels other than 0, got {len(labels)} labels of 0; label more modules")
    data = lightgbm.Dataset(
        tree_features(labels.features, labels.observations[informative]),
        label=(labels.bytes[informative] < 0).astype(int),
        weight=labels.weights[informative],
    )
    parameters = {**_TREES, "num_threads": threads}
    fitted = [lightgbm.train({**parameters, "seed": seed + number}, data, trees) for number in range(models)]

    def logits(observations: Matrix) -> npt.NDArray[np.float64]:
        inputs = tree_features(labels.features, observations)
        mean: npt.NDArray[np.float64] = np.mean([model.predict(inputs, raw_score=True) for model in fitted], axis=0)
        return mean

    return logits


def tree_features(names: Sequence[str], observations: Matrix) -> npt.NDArray[np.float64]:
    """Return the inputs of the trees: signed logarithms of the features, and relations that no single split expresses.

    Returns:
        float64 of shape (decisions, network features + 7).
    """
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
