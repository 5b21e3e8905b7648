"""Moves of a search by expected savings, and the parts of compiles that they replace."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.attribution.inline_compile import InlineCompile, InlineDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.search.expected_compile import ExpectedCompile, override_all
from mlgo_gym.search.flip_plan import Trial
from mlgo_gym.search.move_ranking import MoveRanking, code_copies
from mlgo_gym.search.moves import Move, make_move
from mlgo_gym.search.portfolio import ReplayPolicy
from mlgo_gym.session.protocol.decision import DecisionSite


def decided(component: str, callee: str, answer: int, estimate: float = 0.0, index: int = 0) -> InlineDecision:
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
        decided("leaf", "extern", 0),
        decided("middle", "leaf", 1),
        decided("one", "middle", 1),
        decided("two", "middle", 1),
        decided("two", "leaf", 1, index=1),
    ]
    copies = {"leaf": 4.0, "middle": 2.0, "one": 1.0, "two": 1.0}
    assert code_copies(decisions, {"one": 40, "two": 60, "leaf": 9}) == copies
    recursion = [decided("ping", "pong", 1), decided("pong", "ping", 1)]
    assert code_copies(recursion, {"ping": 10, "pong": 10})["ping"] == pytest.approx(2.0)


def test_scores_follow_copies_estimates_and_sizes() -> None:
    leaf, other = flip(decided("leaf", "a", 1, -30.0)), flip(decided("other", "a", 1, -30.0))
    first, second = mean_scores([leaf, other], {"leaf": 20.0, "other": 1.0}, {})
    assert first == pytest.approx(20 * second, rel=0.1)
    scores = mean_scores([flip(decided("f", "a", 1, cost)) for cost in (-30.0, 10.0, 50.0, 200.0)], {}, {})
    assert scores == sorted(scores)
    calls = [decided("f", "g", 0, 150.0, index=number) for number in range(8)]
    few, many = flip(*calls[:2], kind="inline callee"), flip(*calls, kind="inline callee")
    one, eight = mean_scores([few, many], {}, {"g": 400})
    assert one > eight, "inlining many calls of a large function"


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


def trial(decisions: list[InlineDecision], sizes: dict[str, int]) -> Trial:
    functions = FunctionSizes(sizes, {}, 0, sum(sizes.values()))
    return Trial(InlineCompile(tuple(decisions), functions), frozenset(), functions, float(functions.text))


def test_smaller_parts_of_another_compile_replace_the_expected_ones() -> None:
    one = trial([decided("f", "a", 0), decided("g", "b", 0)], {"f": 10, "g": 10, "a": 5, "b": 5})
    expected = ExpectedCompile(one)
    larger = trial([decided("f", "a", 0), decided("g", "b", 1)], {"f": 10, "g": 17, "a": 5, "b": 5})
    expected.replace_worse_parts(larger)
    assert (expected.total, expected.visits) == (30, one.compiled.visits)
    other = trial([decided("f", "a", 1), decided("g", "b", 1)], {"f": 12, "g": 17, "b": 5})
    expected.replace_worse_parts(override_all(other))
    # `f` grew by 2 bytes and the 5 bytes of `a` vanished; `g` grew by 7 bytes.
    assert expected.total == 27
    assert expected.sizes == {"f": 12, "g": 10, "b": 5}
    assert [decision.answer for decision in expected.visits["f", 0]] == [1]


def test_a_replay_repeats_recorded_answers_and_takes_clangs_own_choice_elsewhere() -> None:
    made = (
        InlineDecision(DecisionSite("main", 0, 0), "f", 1, 0, b""),
        InlineDecision(DecisionSite("main", 1, 0), "f", 0, 1, b""),
    )
    policy = ReplayPolicy(InlineCompile(made, FunctionSizes({}, {}, 0, 0)))
    sites = [DecisionSite("main", visit, index) for visit, index in ((0, 0), (1, 0), (0, 1))]
    assert [policy.act(None, {"site": site, "default_action": 7}) for site in sites] == [1, 0, 7]
