"""What is better in some functions of another compile is expected, and what is worse there is not."""

from __future__ import annotations

from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.search.expectation import Expectation, everything_kept
from mlgo_gym.search.plan import Site, Trial


def call(component: str, callee: str, answer: int) -> PlacedDecision:
    return PlacedDecision(component, 0, 0, callee, answer, 0, b"")


def trial(decisions: list[PlacedDecision], sizes: dict[str, int]) -> Trial:
    return Trial(PlacedCompile(tuple(decisions), FunctionSizes(sizes, {}, 0, sum(sizes.values()))), frozenset())


ONE = trial([call("f", "a", 0), call("g", "b", 0)], {"f": 10, "g": 10, "a": 5, "b": 5})
OTHER = trial([call("f", "a", 1), call("g", "b", 1)], {"f": 12, "g": 17, "b": 5})


def test_the_better_parts_of_another_compile_are_taken_over() -> None:
    expected = Expectation(ONE)
    expected.take_better(everything_kept(OTHER))
    # `f` grew by 2 and `a` went, which is 3 bytes less; `g` grew by 7 for nothing.
    assert expected.text == 27
    assert expected.sizes == {"f": 12, "g": 10, "b": 5}
    assert [decision.answer for decision in expected.visits["f", 0]] == [1]
    assert [decision.answer for decision in expected.visits["g", 0]] == [0]
    assert expected.kept == {Site("f", 0, 0)}


def test_nothing_is_taken_of_what_is_nowhere_better() -> None:
    expected = Expectation(ONE)
    expected.take_better(trial([call("f", "a", 0), call("g", "b", 1)], {"f": 10, "g": 17, "a": 5, "b": 5}))
    assert expected.text == ONE.compiled.text
    assert expected.visits == ONE.compiled.visits
