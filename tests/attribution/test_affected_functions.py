"""The functions that a flip can change."""

from __future__ import annotations

from mlgo_gym.attribution.affected_functions import AffectedFunctions, Reach
from mlgo_gym.attribution.inline_compile import InlineDecision
from mlgo_gym.session.protocol.decision import DecisionSite


def call(component: str, callee: str, answer: int = 0, index: int = 0) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, index), callee, answer, 0, b"")


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


def test_a_callee_that_appears_is_affected() -> None:
    inlined = call("main", "parse", 1)
    assert AffectedFunctions([inlined], {"main": 9}).of([inlined]) == {"main", "parse"}
