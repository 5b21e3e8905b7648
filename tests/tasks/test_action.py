"""Actions as agents hand them over."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import ActionError
from mlgo_gym.tasks.action import read_action

DISCRETE: gym.Space[Any] = gym.spaces.Discrete(2)
BOX = gym.spaces.Box(0, 1, (1,), np.float32)


@pytest.mark.parametrize(
    "action", [1, True, 1.0, np.int64(1), np.bool_(True), np.array(1), np.array([1]), np.array([[1.0]]), [1]], ids=repr
)
def test_a_whole_number_or_an_array_of_one_is_a_discrete_action(action: Any) -> None:
    read = read_action(action, DISCRETE)
    assert (read, type(read)) == (1, int)


@pytest.mark.parametrize("action", [0.25, np.float32(0.25), np.array([0.25], np.float64), [0.25]], ids=repr)
def test_a_number_or_an_array_of_one_is_a_continuous_action(action: Any) -> None:
    assert read_action(action, BOX) == 0.25
    assert read_action(1, BOX) == 1.0


@pytest.mark.parametrize("action", [7, -1, np.array([9])], ids=repr)
def test_a_number_outside_the_space_is_an_action_though_an_illegal_one(action: Any) -> None:
    assert isinstance(read_action(action, DISCRETE), int)


@pytest.mark.parametrize("action", [None, "1", b"1", [], [0, 1], np.array([0, 1]), np.array(["1"]), {}, 1j], ids=repr)
@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
def test_what_is_no_number_is_no_action(action: Any, space: gym.Space[Any]) -> None:
    with pytest.raises(ActionError, match="expected an action, an element of "):
        read_action(action, space)


@pytest.mark.parametrize("action", [0.5, float("nan"), float("inf")])
def test_half_a_number_is_no_discrete_action(action: float) -> None:
    with pytest.raises(ActionError, match="expected an action"):
        read_action(action, DISCRETE)
