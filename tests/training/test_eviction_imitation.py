"""Imitation of eviction labels: the network rates columns as the labels do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.eviction import COLUMN_FEATURES, INPUTS
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.eviction_imitation import EvictionImitation, eviction_examples, rates_columns
from mlgo_gym.training.labels import Labels
from mlgo_gym.training.monitor import Monitor

COLUMNS = 33
WEIGHT = COLUMN_FEATURES.index("use_def_density")


def labels(count: int = 400, seed: int = 0) -> Labels:
    """Return labels in which a column costs more than clang's own choice by its weight less that of the choice."""
    generator = np.random.default_rng(seed)
    names = [f"{feature}[{column}]" for feature in COLUMN_FEATURES for column in range(COLUMNS)]
    observations = generator.random((count, len(names) + 1))
    weights = observations[:, WEIGHT * COLUMNS : (WEIGHT + 1) * COLUMNS]
    costs = np.full((count, COLUMNS), np.inf)
    legal = np.array([2, 5, 9, 32])
    costs[:, legal] = np.nan
    defaults = generator.choice(legal, count)
    rows = np.arange(count)
    costs[rows, defaults] = 0
    for _ in range(2):
        tried = generator.choice(legal, count)
        costs[rows, tried] = weights[rows, tried] - weights[rows, defaults]
    return Labels(
        (*names, "progress"), observations, defaults, costs,
        text=np.full(count, 1000.0), share=np.ones(count), groups=rows % 7,
        modules=np.array(["m"] * count), digests=np.array([""] * count), defaults=defaults, prices=np.full(count, 50.0),
    )  # fmt: skip


def test_examples_are_changes_in_percent_of_the_function_and_each_counts_once() -> None:
    known = labels(20)
    examples = eviction_examples(known)
    assert examples.inputs.shape == (60, len(INPUTS))
    assert set(examples.share) == {0.05}
    legal = np.flatnonzero(~np.isposinf(known.costs[0]))
    others = legal[legal != known.defaults[0]]
    assert np.array_equal(examples.change[:3], 2 * known.costs[0, others], equal_nan=True)
    twice = known.select(np.concatenate([np.arange(20), np.arange(20)]))
    assert len(eviction_examples(twice).inputs) == 60


def test_labels_of_other_kinds_are_told_apart() -> None:
    known = labels(5)
    assert rates_columns(known)
    assert not rates_columns(replace(known, prices=known.text))
    assert not rates_columns(replace(known, features=tuple(f"x{name}" for name in known.features)))


@pytest.mark.libraries
def test_the_network_prefers_what_costs_less_and_a_margin_is_added() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    settings = EvictionImitation(models=2, trees=60, network=NetworkSettings((16,), 1500))
    network = settings.fit([labels(3000)], Monitor())
    examples = eviction_examples(labels(200, seed=1))
    tried = examples.tried
    predicted, change = network(examples.inputs[tried])[:, 0], examples.change[tried]
    assert np.corrcoef(predicted, change)[0, 1] > 0.8
    with_margin = settings.with_margin(network, 0.5)
    assert np.allclose(with_margin(examples.inputs[:9]), network(examples.inputs[:9]) + 0.5, atol=1e-6)


def test_labels_without_a_tried_column_are_refused() -> None:
    known = labels(5)
    costs = np.where(np.isposinf(known.costs), np.inf, np.nan)
    with pytest.raises(MlgoError, match="expected labels with tried columns, got 5 labels without"):
        EvictionImitation().fit([replace(known, costs=costs)], Monitor())
