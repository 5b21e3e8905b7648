"""A compile as a policy."""

from __future__ import annotations

from mlgo_gym.attribution.inline_compile import InlineCompile, InlineDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.search.portfolio import ReplayPolicy
from mlgo_gym.session.protocol.decision import DecisionSite


def test_it_repeats_recorded_answers_and_takes_clangs_own_choice_elsewhere() -> None:
    made = (
        InlineDecision(DecisionSite("main", 0, 0), "f", 1, 0, b""),
        InlineDecision(DecisionSite("main", 1, 0), "f", 0, 1, b""),
    )
    policy = ReplayPolicy(InlineCompile(made, FunctionSizes({}, {}, 0, 0)))

    def answer(visit: int, index: int) -> int:
        info = {"site": DecisionSite("main", visit, index), "default_action": 7}
        return int(policy.act(None, info))

    assert (answer(0, 0), answer(1, 0), answer(0, 1)) == (1, 0, 7)
