"""Search algorithms find verified actions that cost no more than clang's own choices, within the budget."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.search import ALGORITHMS, Budget, SearchResult, SearchSpace, search_module
from mlgo_gym.search.look_ahead import beam
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

OF_INLINING = [name for name in ALGORITHMS if name != "functions"]
"""The algorithms that search inlining decisions."""

TRIED = 4
"""Number of decisions of an exhaustive search: 16 compiles."""


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("mixed.c")


@pytest.fixture
def env(mixed: Path) -> Iterator[CompilerEnv]:
    env = InlineEnv(corpus=str(mixed))
    yield env
    env.close()


@pytest.mark.parametrize("algorithm", OF_INLINING)
def test_a_search_stays_within_its_budget_and_a_replay_verifies_its_actions(env: CompilerEnv, algorithm: str) -> None:
    result = search_module(env, env.corpus[0], algorithm, compiles=12)
    assert result.verified
    assert result.compiles <= 12
    assert result.cost <= result.baseline


@pytest.mark.parametrize("algorithm", OF_INLINING)
def test_equal_seeds_find_equal_decisions(env: CompilerEnv, algorithm: str) -> None:
    results = [search_module(env, env.corpus[0], algorithm, compiles=8, seed=3) for _ in range(2)]
    assert results[0].actions == results[1].actions


def exhaustive(env: CompilerEnv) -> float:
    """Return the least cost of all action sequences, without forks."""
    best = float("inf")
    space = SearchSpace(env, env.corpus[0], Budget())
    for choices in itertools.product(range(space.size), repeat=TRIED):
        with space.root() as branch:
            for choice in choices:
                if branch.decision is not None:
                    branch.take(choice)
            assert branch.decision is None, "the module has more decisions than TRIED"
            best = min(best, branch.leaf().cost)
    return best


def test_a_wide_beam_and_an_exhausted_tree_find_the_optimum(calls: Path) -> None:
    env = InlineEnv(corpus=str(calls), max_decisions=TRIED)
    optimum = exhaustive(env)
    assert beam(SearchSpace(env, env.corpus[0], Budget()), width=64).cost == optimum
    found = search_module(env, env.corpus[0], "mcts", compiles=400)
    assert found.cost == optimum
    assert found.compiles <= 2**TRIED, "no path is compiled twice"


@pytest.mark.parametrize("algorithm", ["hill_climb", "mcts"])
def test_a_small_cache_of_branches_gives_the_same_result(
    calls: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = InlineEnv(corpus=str(calls))
    found = search_module(env, env.corpus[0], algorithm, compiles=40)
    monkeypatch.setattr("mlgo_gym.search.branch_cache.MAX_BRANCHES", 1)
    again = search_module(env, env.corpus[0], algorithm, compiles=40)
    assert (again.actions, again.cost, again.improvements) == (found.actions, found.cost, found.improvements)


def test_evictions_are_searched_among_legal_columns(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")))
    result = search_module(env, env.corpus[0], "greedy", compiles=15)
    assert result.verified
    assert result.compiles == 15


def test_a_space_that_is_not_discrete_is_refused(mixed: Path) -> None:
    env = RegAllocPriorityEnv(corpus=str(mixed))
    with pytest.raises(MlgoError, match="Discrete"):
        search_module(env, env.corpus[0], "greedy")


def test_an_unknown_algorithm_and_a_module_without_decisions_are_errors(env: CompilerEnv, leaf: Path) -> None:
    with pytest.raises(MlgoError, match="greedy, random"):
        search_module(env, env.corpus[0], "magic")
    empty = InlineEnv(corpus=str(leaf))
    with pytest.raises(CorpusError, match="expected a decision on inlining"):
        search_module(empty, empty.corpus[0], "greedy")


def test_a_replay_of_too_few_or_too_many_decisions_is_an_error(env: CompilerEnv) -> None:
    space = SearchSpace(env, env.corpus[0], Budget())
    with space.root() as root:
        actions = root.roll_out().actions
    with pytest.raises(MlgoError, match="to replay, got more"):
        space.replay(actions[:-1])
    with pytest.raises(MlgoError, match="decisions to replay, got"):
        space.replay((*actions, 0))


@pytest.mark.parametrize(("compiles", "seconds"), [(0, None), (None, 0.0), (None, -1.0)])
def test_a_budget_is_positive(compiles: int | None, seconds: float | None) -> None:
    with pytest.raises(MlgoError, match="use None for no limit"):
        Budget(compiles, seconds)


@pytest.fixture
def pressed(make_bitcode: MakeBitcode) -> Iterator[CompilerEnv]:
    """Evictions in one function, which greedy search improves."""
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), scope="function", max_decisions=3)
    yield env
    env.close()


def test_a_result_has_the_cost_within_a_smaller_budget(pressed: CompilerEnv) -> None:
    full = search_module(pressed, pressed.corpus[0], "greedy", compiles=40)
    assert len(full.improvements) > 1
    for compiles in (1, 8, 16, 40):
        part = search_module(pressed, pressed.corpus[0], "greedy", compiles=compiles)
        assert full.cost_after(compiles) == part.cost
    assert full.cost_after(0) == full.baseline
    assert SearchResult.from_json(json.loads(json.dumps(full.to_json()))) == full


def test_greedy_search_repeats_its_pass_after_an_improvement(pressed: CompilerEnv, env: CompilerEnv) -> None:
    improved = search_module(pressed, pressed.corpus[0], "greedy")
    assert improved.cost < improved.baseline
    last, _ = improved.improvements[-1]
    space = SearchSpace(pressed, pressed.corpus[0], Budget())
    with space.root() as branch:
        first_pass = 1
        for action in improved.actions:
            first_pass += len(branch.candidates()) - 1
            branch.take(action)
    assert improved.compiles - last >= first_pass - 1
    unimproved = search_module(env, env.corpus[0], "greedy")
    assert unimproved.compiles == 1 + len(unimproved.actions)


def test_one_function_is_searched_with_the_scope_of_a_function(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("spills.c")), scope="function")
    module = env.corpus[0]
    result = search_module(env, module, "greedy", compiles=20, function="straight")
    assert result.verified
    assert len(result.actions) > 0
    assert result.baseline == _baseline(env, "straight")
    with pytest.raises(CorpusError, match="'easy'"):
        search_module(env, module, "greedy", compiles=20, function="easy")
    env.close()


def _baseline(env: CompilerEnv, function: str) -> float:
    _, info = env.reset(options={"module": env.corpus[0].name, "function": function})
    while "baseline_spill_cost" not in info:
        *_, info = env.step(info["default_action"])
    return float(info["baseline_spill_cost"])
