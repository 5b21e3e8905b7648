"""A network gives the logits of its teacher."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.training.distillation import (
    EXCLUDED_FEATURES,
    NetworkSettings,
    distil,
    gradient_descent,
    mixed_rows,
    network_features,
    perceptron,
)
from tests.training.label_samples import FEATURES, inlining_labels


def test_networks_do_not_see_what_identifies_a_module() -> None:
    assert "node_count" in EXCLUDED_FEATURES
    assert network_features(FEATURES) == tuple(name for name in FEATURES if name != "node_count")


def test_mixed_rows_take_each_column_from_some_row() -> None:
    rows = np.arange(40).reshape(10, 4)
    mixed = mixed_rows(rows, np.random.default_rng(0))
    assert mixed.shape == (30, 4)
    assert (mixed % 4 == np.arange(4)).all()
    assert (mixed // 4 != mixed[:, :1] // 4).any()


@pytest.mark.libraries
def test_a_network_gives_the_logits_of_its_teacher() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = inlining_labels().observations
    losses: list[float] = []

    def advance(done: int, **values: float) -> None:
        losses.append(values["loss"])

    network = distil(
        FEATURES,
        rows,
        lambda observations: observations[:, 0] / 50,
        NetworkSettings((32, 16), 400),
        advance=advance,
    )
    assert network.features == network_features(FEATURES)
    columns = [FEATURES.index(name) for name in network.features]
    outputs = network(rows[:, columns].astype(np.float32))[:, 0]
    assert np.corrcoef(outputs, rows[:, 0])[0, 1] > 0.9
    assert losses[-1] < losses[0] / 2


@pytest.mark.libraries
def test_the_seed_determines_the_training_whatever_else_uses_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = torch.arange(20.0).reshape(10, 2)

    def trained(seed: int) -> list[float]:
        torch.rand(3)
        build = perceptron([2, 3, 1])
        model = gradient_descent(build, lambda module, batch: module(rows[batch]).square().mean(), 10, 5, seed=seed)
        return [value for part in model.parameters() for value in part.detach().flatten().tolist()]

    assert trained(1) == trained(1) != trained(2)
