"""Which of several margins is taken, by what they gave on the validation modules."""

from __future__ import annotations

import pytest

from mlgo_gym.training.margin_choice import MarginResult, best_margin


def results(*rows: tuple[float, float, int]) -> list[MarginResult]:
    return [MarginResult(margin, mean, mean, worse, 100) for margin, mean, worse in rows]


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (results((0.0, -0.02, 3), (0.5, -0.01, 2)), 0.0),
        (results((0.0, -0.02, 3), (0.5, -0.0196, 3)), 0.5),  # as good, and deviates less
        (results((0.0, -0.02, 8), (0.5, -0.01, 7), (1.0, -0.001, 0)), 0.5),  # one in twelve is too many
        (results((0.0, -0.02, 30), (0.5, -0.015, 20), (1.0, -0.01, 20)), 0.5),  # every margin is bad
    ],
)
def test_the_best_margin_is_taken_of_those_with_which_few_modules_are_larger(
    found: list[MarginResult], taken: float
) -> None:
    assert best_margin(found) == taken
