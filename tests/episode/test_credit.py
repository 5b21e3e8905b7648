"""Credits add up to the total, and exact credit is the cost of a flip."""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.credit import CostChanges, credit, merge_split_parts
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, InlineDecision, differing, run_inline_compile
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.sizes import FunctionSizes
from tests.conftest import MakeBitcode, clang_program
from tests.fakes.drive import run

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.fixture(scope="module")
def env(families: Path) -> InlineEnv:
    return InlineEnv(corpus=str(families))


def module(env: InlineEnv) -> Module:
    return env.corpus[0]


def clangs_own(decision: Decision) -> int:
    (answer,) = struct.unpack_from("<q", decision.payload, len(decision.payload) - 8)
    return int(answer)


def compiled(env: InlineEnv, choose: Callable[[Decision], int] = clangs_own) -> InlineCompile:
    return run_inline_compile(env.compilation(module(env)), env.task, choose, LONG)


def flipping(numbers: set[int], before: InlineCompile) -> Callable[[Decision], int]:
    """Repeat a compile by the sites of its decisions, with some of them flipped."""
    flipped = {before.decisions[number].site for number in numbers}

    def choose(decision: Decision) -> int:
        site = decision.site
        visit = before.visits.get(site[:2], [])
        answer = visit[site.index].answer if site.index < len(visit) else clangs_own(decision)
        return 1 - answer if site in flipped else answer

    return choose


def test_the_credit_of_a_single_flip_is_all_that_it_changed(env: InlineEnv) -> None:
    reference = compiled(env)
    for number in range(0, len(reference.decisions), 3):
        episode = compiled(env, flipping({number}, reference))
        found = credit(reference, episode)
        (cause,) = differing(reference.decisions, episode.decisions)
        assert episode.decisions[cause].site == reference.decisions[number].site
        assert found.saved[cause] == reference.text - episode.text


def test_exact_credit_is_the_cost_of_undoing_the_decision(env: InlineEnv) -> None:
    reference = compiled(env)
    generator = random.Random(2)
    exact = agreed = signs = others = 0
    for _ in range(3):
        episode = compiled(env, lambda decision: clangs_own(decision) ^ (generator.random() < 0.15))
        found = credit(reference, episode)
        for number in differing(reference.decisions, episode.decisions):
            undone = compiled(env, flipping({number}, episode))
            cost = undone.text - episode.text
            if found.exact[number]:
                exact += 1
                agreed += cost == found.saved[number]
            else:
                others += 1
                signs += (cost > 0) == (found.saved[number] > 0) or cost == 0
    assert exact + others > 5
    assert agreed >= 0.6 * exact, f"exact {agreed} of {exact}"
    assert signs >= 0.6 * others, f"of the same sign {signs} of {others}"


def decision(component: str, callee: str, answer: int) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, 0), callee, answer, answer, b"")


def test_decisions_that_share_a_function_share_its_change_by_their_expected_growth() -> None:
    kept = [
        decision("f", "large", 0),
        decision("f", "small", 0)._replace(site=DecisionSite("f", 0, 1)),
        decision("g", "f", 0),
    ]
    inlined = [
        kept[0]._replace(answer=1, estimate=100.0),
        kept[1]._replace(answer=1, estimate=20.0),
        kept[2],
    ]
    reference = InlineCompile(tuple(kept), sizes({"f": 100, "g": 10}))
    episode = InlineCompile(tuple(inlined), sizes({"f": 160, "g": 10}))
    found = credit(reference, episode).saved
    # 46 and 6 are expected, and 8 are left.
    assert found.tolist() == pytest.approx([-46 - 8 * 54 / 68, -6 - 8 * 14 / 68, 0])
    # The bonus for a last call does not change its expected growth.
    last = InlineCompile((inlined[0]._replace(estimate=-14900.0), *inlined[1:]), episode.functions)
    assert credit(reference, last).saved.tolist() == pytest.approx(found.tolist())


def sizes(functions: dict[str, int], aliases: dict[str, str] | None = None) -> FunctionSizes:
    return FunctionSizes(functions, aliases or {}, 0, sum(functions.values()))


def test_the_share_of_a_decision_halves_with_each_step_to_the_function_that_changed() -> None:
    before = [
        decision("f", "a", 0),
        decision("g", "f", 1),
        decision("g", "b", 0)._replace(site=DecisionSite("g", 0, 1)),
    ]
    after = [before[0]._replace(answer=1), before[1], before[2]._replace(answer=1)]
    reference = InlineCompile(tuple(before), sizes({"f": 10, "g": 10, "b": 50}))
    episode = InlineCompile(tuple(after), sizes({"f": 10, "g": 40, "b": 50}))
    assert credit(reference, episode).saved.tolist() == pytest.approx([-10, 0, -20])
    # The whole cost of a function vanishes, though not its bytes, because of the decisions that reach its calls.
    costs = CostChanges({"b": -3.0}, -3.0, before={"b": 3.0})
    assert credit(reference, episode, costs=costs).saved.tolist() == pytest.approx([1, 0, 2])


# Functions that cannot be told apart: an error with the reason, or the documented fallback

EQUAL_FUNCTIONS = """
int use(int);
static int small(int x) { return use(x) + use(x + 1) * 3; }
int first(int x) { return small(x) + small(x + 2); }
int second(int x) { return small(x) + small(x + 2); }
int third(int x) { return small(x) * small(x - 1); }
"""


@pytest.mark.parametrize("options", [{"callee_features": True}, {"credit": True}], ids=str)
def test_a_clang_that_prints_no_contexts(options: dict[str, Any], make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    silent = clang_program(tmp_path / "clang", 'case "$*" in *print-before*) exec 2>/dev/null;; esac')
    env = InlineEnv(corpus=str(make_bitcode("calls.c")), clang=str(silent), **options)
    with env, pytest.raises(ToolchainError, match="expected a clang that prints functions before inlining"):
        env.reset(seed=0)


def test_functions_that_the_compiler_merges(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source = tmp_path / "equal.c"
    source.write_text(EQUAL_FUNCTIONS)
    with InlineEnv(
        corpus=str(make_bitcode(source)),
        credit=True,
        compile_options={"extra_flags": ["-fmerge-functions"]},
        reward="bytes",
    ) as env:
        _, (_, reward, _, _, info) = run(env, lambda info: 1 - info["default_action"])
        by_function = info["function_sizes"]
        assert reward
        assert sum(info["credit"]) == pytest.approx(reward)
        assert sum(by_function.functions.values()) + by_function.unnamed == info["text"]


def test_split_off_parts_count_as_part_of_the_function() -> None:
    parts = {"first": 10, "first.cold.1": 4, "second.part": 3, "own.name": 2, "own": 1}
    assert merge_split_parts(parts, {"first", "own.name", "own"}) == {
        "first": 14,
        "second.part": 3,
        "own.name": 2,
        "own": 1,
    }
    assert merge_split_parts({"first": 4, "first.cold": -4}, {"first"}) == {}


def test_few_reference_compiles_are_kept(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.episode.setup.MAX_REFERENCES", 1)
    env = InlineEnv(corpus=varied, credit=True)
    first, _, again = (run(env, lambda _: 0, module=name)[1].info["credit"] for name in ("calls", "mixed", "calls"))
    assert first == again
    assert any(first)
