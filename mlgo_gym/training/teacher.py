"""The teacher: boosted trees that predict whether inlining makes the module smaller, weighted by the bytes at stake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.training.features import Matrix, teacher_features
from mlgo_gym.training.label_store import Labels

_MOST_SHARE = 40.0
_MOST_WEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class TeacherSettings:
    """How the trees are grown.

    Attributes:
        power: a label's weight is its bytes to this power,
        relative: divided by the bytes of its module to this power.
        seeds: how many models are averaged.
        trees: how many trees each model has.
        leaves: how many leaves each tree has.
        least: the fewest labels in a leaf.
    """

    power: float = 1.0
    relative: float = 0.5
    seeds: int = 3
    trees: int = 300
    leaves: int = 15
    least: int = 20


class Teacher:
    """Some models of boosted trees, averaged.

    Args:
        labels: what to learn from; labels of 0 bytes say nothing.
        settings: how.
        seed: the first seed of the models.
        jobs: how many threads.

    Raises:
        MissingExtraError: LightGBM is not installed.
        MlgoError: no label is anything but 0.
    """

    def __init__(self, labels: Labels, settings: TeacherSettings, *, seed: int = 0, jobs: int = 1) -> None:
        lightgbm = library("lightgbm", "the teacher of imitation", "training")
        self._names = labels.features
        telling = np.flatnonzero(labels.bytes)
        if not len(telling):
            raise MlgoError(f"labels that are not 0 were wanted, and all {len(labels)} are; label more modules")
        inputs = teacher_features(labels.features, labels.observations[telling])
        weights = label_weights(labels, settings)[telling]
        data = lightgbm.Dataset(
            inputs,
            label=(labels.bytes[telling] < 0).astype(int),
            weight=np.minimum(weights / weights.mean(), _MOST_WEIGHT),
        )
        self._models: list[Any] = []
        for number in range(settings.seeds):
            arguments = {
                "objective": "binary",
                "num_leaves": settings.leaves,
                "learning_rate": 0.05,
                "min_child_samples": settings.least,
                "feature_fraction": 0.5,
                "bagging_fraction": 0.7,
                "bagging_freq": 1,
                "lambda_l2": 1.0,
                "verbose": -1,
                "num_threads": jobs,
                "deterministic": True,
                "force_row_wise": True,
                "seed": seed + number,
            }
            self._models.append(lightgbm.train(arguments, data, settings.trees))

    def logits(self, observations: Matrix) -> npt.NDArray[np.float64]:
        """Return how sure the models are that "inline" is smaller, float64 of shape (decisions,); 0 is undecided."""
        inputs = teacher_features(self._names, observations)
        predictions = [model.predict(inputs, raw_score=True) for model in self._models]
        mean: npt.NDArray[np.float64] = np.mean(predictions, axis=0)
        return mean


def label_weights(labels: Labels, settings: TeacherSettings) -> npt.NDArray[np.float64]:
    """Return what each label weighs, float64 of shape (labels,).

    A label stands for the unlabelled decisions of its module too; and bytes count for less in a large module, since the
    aim is a relative reduction of every module.
    """
    share: npt.NDArray[np.float64] = np.minimum(labels.share, _MOST_SHARE) ** 0.5
    weights: npt.NDArray[np.float64] = (
        np.abs(labels.bytes).astype(np.float64) ** settings.power * share / labels.text**settings.relative
    )
    return weights


def estimate(labels: Labels, answers: Matrix) -> float:
    """Return by how much other answers would change the modules according to their labels: the mean relative change.

    This is a first-order estimate: it takes decisions to be independent of each other.

    Args:
        labels: the labels.
        answers: 0 or 1 for each.
    """
    changes = (answers.astype(np.int64) - labels.answers) * labels.bytes * labels.share / labels.text
    _, module = np.unique(labels.modules, return_inverse=True)
    # The labels of a few modules must not decide everything.
    return float(np.clip(np.bincount(module, changes), -0.08, 0.08).mean())
