"""Many flips at once: which do not meet, and whose doing a function's bytes are."""

from __future__ import annotations

from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.training.flips import CallGraph, attribute, unrelated


def call(component: str, callee: str, answer: int = 0, position: int = 0) -> PlacedDecision:
    return PlacedDecision(component, 0, position, callee, answer, 0, b"")


def test_a_territory_has_what_the_caller_goes_into_and_callees_that_may_lose_their_last_call() -> None:
    into, kept, other = call("main", "parse", answer=1), call("parse", "skip"), call("elsewhere", "unrelated")
    graph = CallGraph([into, kept, other])
    assert graph.territory(kept) == {"parse", "main", "skip"}
    assert graph.territory(other) == {"elsewhere", "unrelated"}


def test_a_callee_of_many_is_nobodys_territory() -> None:
    calls = [call(name, "memcpy") for name in ("a", "b", "c", "d")]
    graph = CallGraph([*calls, call("a", "helper")])
    assert "memcpy" not in graph.territory(call("a", "helper"))


def test_flips_are_taken_as_they_are_offered_as_long_as_they_do_not_meet() -> None:
    territories = {"first": {"a", "b"}, "second": {"b", "c"}, "third": {"c"}, "fourth": {"d"}}
    assert unrelated(territories, territories.__getitem__, 9) == ["first", "third", "fourth"]
    assert unrelated(territories, territories.__getitem__, 2) == ["first", "third"]


def test_a_change_belongs_to_the_nearest_flip() -> None:
    found, books = attribute({"x": {"f": 0, "g": 2}, "y": {"g": 1}}, {"f": -10, "g": 4, "f.cold": 3})
    assert found == {"x": -7, "y": 4}
    assert books.balances
    assert books.changed == 17


def test_flips_that_are_equally_near_get_nothing() -> None:
    found, _ = attribute({"x": {"f": 1}, "y": {"f": 1, "g": 0}, "z": {"h": 0}}, {"f": 8, "g": 1})
    assert found == {"z": 0}


def test_books_do_not_balance_where_much_is_unexplained() -> None:
    found, books = attribute({"x": {"f": 0}}, {"f": 100, "stranger": -90})
    assert found == {"x": 100}
    assert books.unexplained == 90
    assert not books.balances


def test_influence_is_nearest_where_the_call_stands() -> None:
    graph = CallGraph([call("main", "parse"), call("parse", "skip")])
    assert graph.influence(call("parse", "skip")) == {"parse": 0, "main": 1, "skip": 1}
