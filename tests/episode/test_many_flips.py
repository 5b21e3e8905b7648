"""Many flips at once: which do not meet, and whose doing a function's bytes are."""

from __future__ import annotations

from mlgo_gym.episode.many_flips import Territory, attribute, groups, unrelated
from mlgo_gym.episode.placed_compile import PlacedDecision


def call(component: str, callee: str, answer: int = 0, position: int = 0) -> PlacedDecision:
    return PlacedDecision(component, 0, position, callee, answer, 0, b"")


def test_a_territory_has_what_the_caller_goes_into_and_the_callee_whose_last_call_it_is() -> None:
    into, last, one, two = call("main", "parse", 1), call("parse", "skip"), call("f", "often"), call("g", "often")
    territory = Territory([into, last, one, two], {"main": 9, "parse": 9, "skip": 9, "often": 9, "f": 9, "g": 9})
    assert territory.of([last]) == {"parse", "main", "skip"}
    assert territory.of([one]) == {"f"}
    assert territory.of([one, two]) == {"f", "g", "often"}


def test_a_callee_that_comes_back_is_of_the_territory() -> None:
    gone = call("main", "parse", 1)
    assert Territory([gone], {"main": 9}).of([gone]) == {"main", "parse"}


def test_flips_are_taken_as_they_are_offered_as_long_as_they_do_not_meet() -> None:
    territories = {"first": {"a", "b"}, "second": {"b", "c"}, "third": {"c"}, "fourth": {"d"}}
    assert unrelated(territories, territories.__getitem__, 9) == ["first", "third", "fourth"]
    assert unrelated(territories, territories.__getitem__, 2) == ["first", "third"]


def test_causes_that_meet_in_a_function_are_one_group() -> None:
    found = groups(4, {"f": {0: 0, 1: 1}, "g": {1: 0}, "h": {2: 0}})
    assert sorted((sorted(causes), sorted(functions)) for causes, functions in found) == [
        ([0, 1], ["f", "g"]),
        ([2], ["h"]),
        ([3], []),
    ]


def test_a_change_belongs_to_the_flip_that_reaches_it() -> None:
    before = [call("f", "a"), call("g", "b")]
    after = [call("f", "a", 1), call("g", "b", 1)]
    sizes = {"f": 10, "g": 10, "a": 5, "b": 5}
    found = attribute(before, after, {"f": 2, "a": -5, "g": 7}, before, sizes)
    assert found.bytes == {0: -3, 1: 7}
    assert found.balances
    assert found.changed == 14


def test_flips_that_meet_in_a_function_get_nothing() -> None:
    before = [call("f", "a"), call("f", "b", position=1), call("g", "b")]
    after = [decision._replace(answer=1) for decision in before]
    found = attribute(before, after, {"f": 8, "g": 1}, before, {"f": 10, "g": 10, "a": 5, "b": 5})
    assert found.bytes == {2: 1}


def test_books_do_not_balance_where_much_is_unexplained() -> None:
    before, after = [call("f", "a")], [call("f", "a", 1)]
    found = attribute(before, after, {"f": 100, "stranger": -90}, before, {"f": 10, "a": 5, "stranger": 90})
    assert found.bytes == {0: 100}
    assert found.unexplained == 90
    assert not found.balances
