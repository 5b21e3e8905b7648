"""The decisions of one compile as a policy."""

from __future__ import annotations

from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.search.recorded import RecordedPolicy


def test_it_answers_known_places_alike_and_others_as_clang_would() -> None:
    made = (
        PlacedDecision("main", 0, 0, "f", 1, 0, b""),
        PlacedDecision("main", 1, 0, "f", 0, 1, b""),
    )
    policy = RecordedPolicy(PlacedCompile(made, FunctionSizes({}, {}, 0, 0)))

    def answer(visit: int, position: int) -> int:
        info = {"context": "main", "visit": visit, "position": position, "default_action": 7}
        return int(policy.act(None, info))

    assert (answer(0, 0), answer(1, 0), answer(0, 1)) == (1, 0, 7)
