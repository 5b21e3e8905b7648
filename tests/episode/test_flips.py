"""Many flips in one compile: the functions that each can change, which are independent, and the bytes of each."""

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.episode.attribution.affected_functions import (
    AffectedFunctions,
    Reach,
    causes_of_changes,
    flip_effects,
    group_causes,
    independent,
)
from mlgo_gym.episode.attribution.inline_compile import InlineDecision


def call(component: str, callee: str, answer: int = 0, index: int = 0) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, index), callee, answer, 0, b"")


def test_independent_flips_are_chosen_in_their_order() -> None:
    affected = {"first": {"a", "b"}, "second": {"b", "c"}, "third": {"c"}, "fourth": {"d"}}
    assert independent(affected, affected.__getitem__, 9) == ["first", "third", "fourth"]
    assert independent(affected, affected.__getitem__, 2) == ["first", "third"]


def test_causes_that_share_a_function_are_one_group() -> None:
    found = group_causes(4, {"f": {0: 0, 1: 1}, "g": {1: 0}, "h": {2: 0}})
    assert sorted((sorted(causes), sorted(functions)) for causes, functions in found) == [
        ([0, 1], ["f", "g"]),
        ([2], ["h"]),
        ([3], []),
    ]


def test_the_effect_of_a_flip_is_the_change_that_it_alone_reaches() -> None:
    """Effects are unreliable where much is unexplained."""
    sizes = {"f": 10, "g": 10, "a": 5, "b": 5, "other": 90}
    one, shared, other = call("f", "a"), call("f", "b", index=1), call("g", "b")
    for before, changes, effects, unexplained, is_reliable in (
        ([one, other], {"f": 2, "a": -5, "g": 7}, {0: -3, 1: 7}, 0, True),
        ([one, shared, other], {"f": 8, "g": 1}, {2: 1}, 0, True),
        ([one], {"f": 100, "other": -90}, {0: 100}, 90, False),
    ):
        found = flip_effects(before, [flipped._replace(answer=1) for flipped in before], changes, before, sizes)
        assert (found.bytes, found.unexplained, found.is_reliable) == (effects, unexplained, is_reliable)
        assert found.changed == sum(map(abs, changes.values()))


def test_code_reaches_the_functions_that_it_is_inlined_into() -> None:
    reach = Reach([[call("b", "a", 1), call("c", "b", 1), call("d", "b", 0)]])
    assert reach.of("a") == {"a": 0, "b": 1, "c": 2}
    assert reach.of_context("b, c") == {"b": 0, "c": 0}


def test_a_flip_affects_the_callers_of_its_caller_and_a_callee_that_loses_its_last_call() -> None:
    into, last, one, two = call("main", "parse", 1), call("parse", "skip"), call("f", "often"), call("g", "often")
    affected = AffectedFunctions([into, last, one, two], {"main": 9, "parse": 9, "skip": 9, "often": 9, "f": 9, "g": 9})
    assert affected.of([last]) == {"parse", "main", "skip"}
    assert affected.of([one]) == {"f"}
    assert affected.of([one, two]) == {"f", "g", "often"}
    # A callee appears.
    assert AffectedFunctions([into], {"main": 9}).of([into]) == {"main", "parse"}


def test_where_calls_count_a_function_changes_with_its_callers_at_the_distance_of_the_nearest() -> None:
    """`far` is called by `near`, which the changed `f` calls; only a metric that counts calls sees that."""
    before = [call("f", "a"), call("f", "near", index=1), call("near", "far"), call("g", "alone")]
    after = [before[0]._replace(answer=1), *before[1:]]
    changes, sizes = {"f": 2, "a": -5, "far": 7, "alone": 3}, dict.fromkeys(("f", "a", "near", "far", "alone"), 5)
    flips = [[before[0]]]
    assert causes_of_changes(before, after, changes, flips, sizes, counts_calls=True) == {
        "f": {0: 0},
        "a": {0: 1},
        "far": {0: 2},
    }
    assert {*causes_of_changes(before, after, changes, flips, sizes)} == {"f", "a"}
