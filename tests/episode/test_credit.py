"""Which bytes belong to which decision: the books balance, and what is said to be exact is what a flip costs."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from mlgo_gym.corpus.module import Module
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.episode.credit import credit, differing
from mlgo_gym.episode.inline_reach import Reach
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision, compile_placed
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.session.decision import Decision
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.fixture(scope="module")
def env(make_bitcode: MakeBitcode) -> InlineEnv:
    return InlineEnv(corpus=str(make_bitcode("families.c")))


def module(env: InlineEnv) -> Module:
    return env.corpus[0]


def clangs_own(decision: Decision) -> int:
    (answer,) = struct.unpack_from("<q", decision.payload, len(decision.payload) - 8)
    return int(answer)


def compiled(env: InlineEnv, choose: Callable[[Decision], int] = clangs_own) -> PlacedCompile:
    return compile_placed(env.compilation(module(env)), env.task, choose, LONG)


def flipping(numbers: set[int], before: PlacedCompile) -> Callable[[Decision], int]:
    """Repeat a compile by the places of its decisions, but for some."""
    flipped = {before.decisions[number][:3] for number in numbers}

    def choose(decision: Decision) -> int:
        place = decision.context, decision.visit, decision.number
        visit = before.visits.get(place[:2], [])
        answer = visit[decision.number].answer if decision.number < len(visit) else clangs_own(decision)
        return 1 - answer if place in flipped else answer

    return choose


def at_random(generator: random.Random, share: float) -> Callable[[Decision], int]:
    """Decide otherwise than clang for a share of the decisions."""
    return lambda decision: clangs_own(decision) ^ (generator.random() < share)


def test_an_episode_of_clangs_own_choices_has_no_credit(env: InlineEnv) -> None:
    reference = compiled(env)
    found = credit(reference, compiled(env))
    assert not found.bytes.any()
    assert found.unexplained == 0


def test_credit_adds_up_to_what_the_episode_saved(env: InlineEnv) -> None:
    reference = compiled(env)
    generator = random.Random(1)
    for share in (0.1, 0.5, 1.0):
        episode = compiled(env, at_random(generator, share))
        found = credit(reference, episode)
        assert found.bytes.sum() == pytest.approx(reference.text - episode.text)


def test_the_credit_of_a_single_flip_is_all_that_it_changed(env: InlineEnv) -> None:
    reference = compiled(env)
    for number in range(0, len(reference.decisions), 3):
        episode = compiled(env, flipping({number}, reference))
        found = credit(reference, episode)
        (cause,) = differing(reference, episode)
        assert episode.decisions[cause][:3] == reference.decisions[number][:3]
        assert found.bytes[cause] == reference.text - episode.text


def test_credit_said_to_be_exact_is_what_undoing_the_decision_costs(env: InlineEnv) -> None:
    reference = compiled(env)
    generator = random.Random(2)
    exact = agreed = signs = others = 0
    for _ in range(3):
        episode = compiled(env, at_random(generator, 0.15))
        found = credit(reference, episode)
        for number in differing(reference, episode):
            undone = compiled(env, flipping({number}, episode))
            cost = undone.text - episode.text
            if found.exact[number]:
                exact += 1
                agreed += cost == found.bytes[number]
            else:
                others += 1
                signs += (cost > 0) == (found.bytes[number] > 0) or cost == 0
    assert exact + others > 5
    assert agreed >= 0.6 * exact, f"exact {agreed} of {exact}"
    assert signs >= 0.6 * others, f"of the same sign {signs} of {others}"


def test_only_inlining_has_this_credit(env: InlineEnv) -> None:
    other = RegAllocEvictEnv(corpus=env.setup.settings.corpus)
    with pytest.raises(MlgoError, match="use mlgo/Inline-v0"):
        compile_placed(other.compilation(other.corpus[0]), other.task, lambda _: 0, LONG)


def decision(component: str, callee: str, answer: int) -> PlacedDecision:
    return PlacedDecision(component, 0, 0, callee, answer, answer, b"")


def test_code_reaches_the_functions_that_it_is_inlined_into() -> None:
    reach = Reach([[decision("b", "a", 1), decision("c", "b", 1), decision("d", "b", 0)]])
    assert reach.of("a") == {"a": 0, "b": 1, "c": 2}
    assert reach.of_component(["b", "c"]) == {"b": 0, "c": 0}


def test_decisions_that_meet_share_by_what_is_expected_of_them() -> None:
    kept = [decision("f", "large", 0), decision("f", "small", 0)._replace(position=1), decision("g", "f", 0)]
    inlined = [
        kept[0]._replace(answer=1, estimate=100.0),
        kept[1]._replace(answer=1, estimate=20.0),
        kept[2],
    ]
    reference = PlacedCompile(tuple(kept), sizes({"f": 100, "g": 10}))
    episode = PlacedCompile(tuple(inlined), sizes({"f": 160, "g": 10}))
    found = credit(reference, episode).bytes
    # 46 and 6 are expected, and 8 are left.
    assert found.tolist() == pytest.approx([-46 - 8 * 54 / 68, -6 - 8 * 14 / 68, 0])
    # A last call is as large as any other.
    last = PlacedCompile((inlined[0]._replace(estimate=-14900.0), *inlined[1:]), episode.functions)
    assert credit(reference, last).bytes.tolist() == pytest.approx(found.tolist())


def sizes(functions: dict[str, int], aliases: dict[str, str] | None = None) -> FunctionSizes:
    return FunctionSizes(functions, aliases or {}, 0, sum(functions.values()))


def test_a_function_that_is_counted_under_another_name_is_still_the_same() -> None:
    before = sizes({"a": 10, "f": 1}, {"b": "a"})
    after = sizes({"b": 12, "g": 3})
    assert size_changes(before, after) == {"a": 2, "f": -1, "g": 3}
    assert size_changes(after, before) == {"b": -2, "f": 1, "g": -3}
