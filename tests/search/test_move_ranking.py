"""Moves of a search by expected savings."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.attribution.inline_compile import InlineDecision
from mlgo_gym.search.move_ranking import MoveRanking, code_copies
from mlgo_gym.search.moves import Move, make_move
from mlgo_gym.session.protocol.decision import DecisionSite


def decided(component: str, callee: str, answer: int, estimate: float, index: int = 0) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, index), callee, answer, answer, b"", estimate)


def flip(*decisions: InlineDecision, kind: str = "") -> Move:
    calls = [(decision.site, decision) for decision in decisions]
    return make_move(kind or ("keep" if decisions[0].answer else "inline"), calls)


def mean_scores(
    moves: list[Move], times: dict[str, float], sizes: dict[str, int], ranking: MoveRanking | None = None
) -> list[float]:
    """Return the mean of many noisy scores."""
    used, generator = ranking or MoveRanking(), np.random.default_rng(0)
    scores = np.mean([used.scores(moves, times, sizes, generator) for _ in range(500)], axis=0)
    return [float(value) for value in scores]


def test_code_is_counted_once_per_function_that_contains_it() -> None:
    decisions = [
        decided("leaf", "extern", 0, 50.0),
        decided("middle", "leaf", 1, -30.0),
        decided("one", "middle", 1, -30.0),
        decided("two", "middle", 1, -30.0),
        decided("two", "leaf", 1, -30.0, index=1),
    ]
    assert code_copies(decisions, {"one": 40, "two": 60, "leaf": 9}) == {
        "leaf": 4.0,
        "middle": 2.0,
        "one": 1.0,
        "two": 1.0,
    }


def test_mutual_recursion_ends() -> None:
    decisions = [decided("ping", "pong", 1, 0.0), decided("pong", "ping", 1, 0.0)]
    assert code_copies(decisions, {"ping": 10, "pong": 10})["ping"] == pytest.approx(2.0)


def test_a_flip_with_many_copies_scores_higher() -> None:
    leaf, other = flip(decided("leaf", "a", 1, -30.0)), flip(decided("other", "a", 1, -30.0))
    first, second = mean_scores([leaf, other], {"leaf": 20.0, "other": 1.0}, {})
    assert first == pytest.approx(20 * second, rel=0.1)


def test_keeping_an_expensive_call_scores_higher_than_keeping_a_cheap_one() -> None:
    costs = [-30.0, 10.0, 50.0, 200.0]
    found = mean_scores([flip(decided("f", "a", 1, cost)) for cost in costs], {}, {})
    assert found == sorted(found)


def test_inlining_many_calls_of_a_large_function_scores_low() -> None:
    calls = [decided("f", "g", 0, 150.0, index=number) for number in range(8)]
    few, many = flip(*calls[:2], kind="inline callee"), flip(*calls, kind="inline callee")
    one, other = mean_scores([few, many], {}, {"g": 400})
    assert one > other


def test_results_of_this_search_correct_the_scores() -> None:
    keep, inline = flip(decided("f", "a", 1, -30.0)), flip(decided("f", "b", 0, 50.0))
    before = mean_scores([keep, inline], {}, {})
    ranking = MoveRanking()
    for _ in range(40):
        ranking.record(keep, 12.0, {}, {})
        ranking.record(inline, -9.0, {}, {})
    after = mean_scores([keep, inline], {}, {}, ranking)
    assert after[0] < before[0] / 2
    assert after[1] > before[1]
