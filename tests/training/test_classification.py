"""Actions with features of their own are scored by the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlgo_gym.training import Classification, Labels, Monitor, NetworkSettings
from mlgo_gym.training.classification import action_features, pooled_normalization

ACTIONS = 5
NAMES = (*(f"{name}[{action}]" for name in ("weight", "noise") for action in range(ACTIONS)), "progress")


def demonstrations(features: tuple[str, ...], rows: Any, actions: Any, illegal: tuple[int, ...] = ()) -> Labels:
    """Return labels whose best action is the given one, of `ACTIONS` actions."""
    costs = np.full((len(rows), ACTIONS), np.nan)
    costs[:, illegal] = np.inf
    costs[np.arange(len(rows)), actions] = 0
    one, names = np.ones(len(rows)), np.full(len(rows), "m")
    return Labels(features, rows, actions, costs, one, one, np.zeros(len(rows), np.int64), names, names, actions, one)


def test_features_of_actions_are_found_by_their_names() -> None:
    found = action_features(NAMES, ACTIONS)
    assert found is not None
    own, common = found
    assert own.tolist() == [[action, ACTIONS + action] for action in range(ACTIONS)]
    assert common == [2 * ACTIONS]
    assert action_features(NAMES, 3) is None
    assert action_features(("cost", "users"), 2) is None


def test_a_feature_is_normalized_alike_for_all_actions() -> None:
    rows = np.random.default_rng(0).random((50, len(NAMES))).astype(np.float32)
    found = action_features(NAMES, ACTIONS)
    assert found is not None
    own, _ = found
    normalization = pooled_normalization(rows, NAMES, own)
    assert len(set(normalization.center[:ACTIONS].tolist())) == 1
    assert len(set(normalization.center.tolist())) == 3


@pytest.mark.libraries
def test_what_was_learned_of_some_actions_holds_for_others() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    chance = np.random.default_rng(0)
    rows = chance.random((600, len(NAMES))).astype(np.float32)
    # The lightest action is correct, and the first one is never legal in training.
    given = demonstrations(NAMES, rows, 1 + rows[:, 1:ACTIONS].argmin(1), (0,))
    network = Classification(NetworkSettings(steps=120)).fit([given], Monitor())
    tried = chance.random((500, len(NAMES))).astype(np.float32)
    chosen = network(tried).argmax(1)
    lightest = tried[:, :ACTIONS].argmin(1)
    assert (chosen == lightest)[lightest == 0].mean() > 0.8
    assert (chosen == lightest).mean() > 0.8


@pytest.mark.libraries
def test_label_smoothing_keeps_a_probability_of_other_actions() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    given = demonstrations(("a", "b"), rows, (rows[:, 0] > 0).astype(np.int64), (2, 3, 4))

    def surest(label_smoothing: float) -> float:
        outputs = Classification(NetworkSettings((8,), 400), label_smoothing).fit([given], Monitor())(rows)
        return float(np.abs(outputs[:, 1] - outputs[:, 0]).max())

    assert surest(0.2) < 0.7 * surest(0.0)
