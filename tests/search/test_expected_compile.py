"""The smaller parts of another compile replace the expected ones."""

from __future__ import annotations

from mlgo_gym.attribution.inline_compile import InlineCompile, InlineDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.search.expected_compile import ExpectedCompile, override_all
from mlgo_gym.search.flip_plan import Trial
from mlgo_gym.session.protocol.decision import DecisionSite


def call(component: str, callee: str, answer: int) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, 0), callee, answer, 0, b"")


def trial(decisions: list[InlineDecision], sizes: dict[str, int]) -> Trial:
    functions = FunctionSizes(sizes, {}, 0, sum(sizes.values()))
    return Trial(InlineCompile(tuple(decisions), functions), frozenset(), functions, float(functions.text))


ONE = trial([call("f", "a", 0), call("g", "b", 0)], {"f": 10, "g": 10, "a": 5, "b": 5})
OTHER = trial([call("f", "a", 1), call("g", "b", 1)], {"f": 12, "g": 17, "b": 5})


def test_smaller_parts_of_another_compile_replace_the_expected_ones() -> None:
    expected = ExpectedCompile(ONE)
    expected.replace_worse_parts(override_all(OTHER))
    # `f` grew by 2 bytes and the 5 bytes of `a` vanished; `g` grew by 7 bytes.
    assert expected.total == 27
    assert expected.sizes == {"f": 12, "g": 10, "b": 5}
    assert [decision.answer for decision in expected.visits["f", 0]] == [1]
    assert [decision.answer for decision in expected.visits["g", 0]] == [0]
    assert expected.overrides == {DecisionSite("f", 0, 0)}


def test_larger_parts_are_ignored() -> None:
    expected = ExpectedCompile(ONE)
    expected.replace_worse_parts(trial([call("f", "a", 0), call("g", "b", 1)], {"f": 10, "g": 17, "a": 5, "b": 5}))
    assert expected.total == ONE.total
    assert expected.visits == ONE.compiled.visits
