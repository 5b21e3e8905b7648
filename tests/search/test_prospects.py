"""Which moves of a search are tried first."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.search.moves import Move, together
from mlgo_gym.search.plan import Site
from mlgo_gym.search.prospects import Prospects, copies


def decided(component: str, callee: str, answer: int, estimate: float, position: int = 0) -> PlacedDecision:
    return PlacedDecision(component, 0, position, callee, answer, answer, b"", estimate)


def flip(*decisions: PlacedDecision, kind: str = "") -> Move:
    calls = [(Site(*decision[:3]), decision) for decision in decisions]
    return together(kind or ("keep" if decisions[0].answer else "inline"), calls)


def promised(
    moves: list[Move], times: dict[str, float], sizes: dict[str, int], prospects: Prospects | None = None
) -> list[float]:
    """The mean of many judgements: there is some chance in each."""
    known, generator = prospects or Prospects(), np.random.default_rng(0)
    judged = np.mean([known.judge(moves, times, sizes, generator) for _ in range(500)], axis=0)
    return [float(value) for value in judged]


def test_code_is_counted_once_for_each_function_that_it_ends_up_in() -> None:
    decisions = [
        decided("leaf", "extern", 0, 50.0),
        decided("middle", "leaf", 1, -30.0),
        decided("one", "middle", 1, -30.0),
        decided("two", "middle", 1, -30.0),
        decided("two", "leaf", 1, -30.0, position=1),
    ]
    assert copies(decisions, {"one": 40, "two": 60, "leaf": 9}) == {"leaf": 4.0, "middle": 2.0, "one": 1.0, "two": 1.0}


def test_functions_that_are_inlined_into_each_other_are_counted_without_end() -> None:
    decisions = [decided("ping", "pong", 1, 0.0), decided("pong", "ping", 1, 0.0)]
    assert copies(decisions, {"ping": 10, "pong": 10})["ping"] == pytest.approx(2.0)


def test_a_flip_whose_code_is_copied_often_promises_more() -> None:
    leaf, other = flip(decided("leaf", "a", 1, -30.0)), flip(decided("other", "a", 1, -30.0))
    first, second = promised([leaf, other], {"leaf": 20.0, "other": 1.0}, {})
    assert first == pytest.approx(20 * second, rel=0.1)


def test_calls_that_were_inlined_at_a_cost_promise_more_than_cheap_ones() -> None:
    costs = [-30.0, 10.0, 50.0, 200.0]
    found = promised([flip(decided("f", "a", 1, cost)) for cost in costs], {}, {})
    assert found == sorted(found)


def test_inlining_all_calls_of_a_large_function_into_many_promises_little() -> None:
    calls = [decided("f", "g", 0, 150.0, position=number) for number in range(8)]
    few, many = flip(*calls[:2], kind="inline all"), flip(*calls, kind="inline all")
    one, other = promised([few, many], {}, {"g": 400})
    assert one > other


def test_what_never_helped_in_this_module_promises_less_and_what_did_more() -> None:
    keep, inline = flip(decided("f", "a", 1, -30.0)), flip(decided("f", "b", 0, 50.0))
    before = promised([keep, inline], {}, {})
    prospects = Prospects()
    for _ in range(40):
        prospects.note(keep, 12.0, {}, {})
        prospects.note(inline, -9.0, {}, {})
    after = promised([keep, inline], {}, {}, prospects)
    assert after[0] < before[0] / 2
    assert after[1] > before[1]
