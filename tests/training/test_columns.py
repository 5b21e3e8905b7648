"""Actions with features of their own are scored alike, whichever they are."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.training.clone import Answers, learn_answers
from mlgo_gym.training.columns import column_features
from mlgo_gym.training.distillation import NetworkSettings

ACTIONS = 5
NAMES = (*(f"{name}[{action}]" for name in ("weight", "noise") for action in range(ACTIONS)), "progress")


def test_features_of_actions_are_found_by_their_names() -> None:
    found = column_features(NAMES, ACTIONS)
    assert found is not None
    own, common = found
    assert own.tolist() == [[action, ACTIONS + action] for action in range(ACTIONS)]
    assert common == [2 * ACTIONS]
    assert column_features(NAMES, 3) is None
    assert column_features(("cost", "users"), 2) is None


@pytest.mark.libraries
def test_what_was_learned_of_some_actions_holds_for_others() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    chance = np.random.default_rng(0)
    rows = chance.random((600, len(NAMES))).astype(np.float32)
    # The lightest is right, and the first action is never legal while it learns.
    legal = np.ones((len(rows), ACTIONS), np.bool_)
    legal[:, 0] = False
    weights = np.where(legal, rows[:, :ACTIONS], np.inf)
    network = learn_answers(Answers(rows, weights.argmin(1), legal), NAMES, NetworkSettings(steps=120))
    tried = chance.random((500, len(NAMES))).astype(np.float32)
    chosen = network(tried).argmax(1)
    lightest = tried[:, :ACTIONS].argmin(1)
    assert (chosen == lightest)[lightest == 0].mean() > 0.8
    assert (chosen == lightest).mean() > 0.8
