"""Searches: what they find is real, costs no more than clang's own choices, and stays within the budget."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.search import ALGORITHMS, Budget, SearchResult, SearchSpace, beam, search_module
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

TRIED = 4
"""How many decisions of a module are tried in every way: 16 compiles."""


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("mixed.c")


@pytest.fixture
def env(mixed: Path) -> Iterator[CompilerEnv]:
    env = InlineEnv(corpus=str(mixed))
    yield env
    env.close()


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_search_ends_within_its_budget_with_decisions_that_a_fresh_clang_confirms(
    env: CompilerEnv, algorithm: str
) -> None:
    result = search_module(env, env.corpus[0], algorithm, compiles=12)
    assert result.verified
    assert result.compiles <= 12
    assert result.cost <= result.baseline


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_equal_seeds_find_equal_decisions(env: CompilerEnv, algorithm: str) -> None:
    results = [search_module(env, env.corpus[0], algorithm, compiles=8, seed=3) for _ in range(2)]
    assert results[0].actions == results[1].actions


def exhaustive(env: CompilerEnv) -> float:
    """Return the cost of the best of all decision sequences, found without any fork."""
    best = float("inf")
    space = SearchSpace(env, env.corpus[0], Budget())
    for choices in itertools.product(range(space.size), repeat=TRIED):
        with space.root() as branch:
            for choice in choices:
                if branch.decision is not None:
                    branch.take(choice)
            assert branch.decision is None, "the module has more decisions than this test tries"
            best = min(best, branch.leaf().cost)
    return best


def test_a_wide_beam_and_an_exhausted_tree_find_what_trying_everything_finds(calls: Path) -> None:
    env = InlineEnv(corpus=str(calls), max_decisions=TRIED)
    wanted = exhaustive(env)
    assert beam(SearchSpace(env, env.corpus[0], Budget()), width=64).cost == wanted
    found = search_module(env, env.corpus[0], "mcts", compiles=400)
    assert found.cost == wanted
    assert found.compiles <= 2**TRIED, "no path is compiled twice"


@pytest.mark.parametrize("algorithm", ["hill_climb", "mcts"])
def test_compiles_that_are_let_go_are_reached_again(
    calls: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = InlineEnv(corpus=str(calls))
    found = search_module(env, env.corpus[0], algorithm, compiles=40)
    monkeypatch.setattr("mlgo_gym.search.snapshots.MOST_SNAPSHOTS", 1)
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


def test_an_unknown_search_and_a_module_without_decisions_are_clear_errors(env: CompilerEnv, leaf: Path) -> None:
    with pytest.raises(MlgoError, match="greedy, random"):
        search_module(env, env.corpus[0], "magic")
    empty = InlineEnv(corpus=str(leaf))
    with pytest.raises(CorpusError, match="no inlining decision"):
        search_module(empty, empty.corpus[0], "greedy")


def test_a_replay_of_too_few_or_too_many_decisions_is_an_error(env: CompilerEnv) -> None:
    space = SearchSpace(env, env.corpus[0], Budget())
    with space.root() as root:
        actions = root.roll_out().actions
    with pytest.raises(MlgoError, match="there are more"):
        space.replay(actions[:-1])
    with pytest.raises(MlgoError, match="were to be replayed"):
        space.replay((*actions, 0))


@pytest.mark.parametrize(("compiles", "seconds"), [(0, None), (None, 0.0), (None, -1.0)])
def test_a_budget_is_positive(compiles: int | None, seconds: float | None) -> None:
    with pytest.raises(MlgoError, match="a budget must have"):
        Budget(compiles, seconds)


@pytest.fixture
def pressed(make_bitcode: MakeBitcode) -> Iterator[CompilerEnv]:
    """Evictions in one function, of which greedy search finds better ones than clang's."""
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), scope="function", max_decisions=3)
    yield env
    env.close()


def test_a_result_tells_what_a_smaller_budget_had_found(pressed: CompilerEnv) -> None:
    whole = search_module(pressed, pressed.corpus[0], "greedy", compiles=40)
    assert len(whole.improvements) > 1
    for compiles in (1, 8, 16, 40):
        part = search_module(pressed, pressed.corpus[0], "greedy", compiles=compiles)
        assert whole.cost_after(compiles) == part.cost
    assert whole.cost_after(0) == whole.baseline
    assert SearchResult.from_json(json.loads(json.dumps(whole.to_json()))) == whole


def test_greedy_search_goes_over_the_decisions_again_when_that_helped(pressed: CompilerEnv, env: CompilerEnv) -> None:
    helped = search_module(pressed, pressed.corpus[0], "greedy")
    assert helped.cost < helped.baseline
    last, _ = helped.improvements[-1]
    space = SearchSpace(pressed, pressed.corpus[0], Budget())
    with space.root() as branch:
        first_pass = 1
        for action in helped.actions:
            first_pass += len(branch.candidates()) - 1
            branch.take(action)
    assert helped.compiles - last >= first_pass - 1
    in_vain = search_module(env, env.corpus[0], "greedy")
    assert in_vain.compiles == 1 + len(in_vain.actions)


def test_one_function_is_searched_where_episodes_are_functions(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("spills.c")), scope="function")
    module = env.corpus[0]
    result = search_module(env, module, "greedy", compiles=20, function="straight")
    assert result.verified
    assert len(result.actions) > 0
    assert result.baseline == _baseline(env, "straight")
    with pytest.raises(CorpusError, match="function 'easy'"):
        search_module(env, module, "greedy", compiles=20, function="easy")
    env.close()


def _baseline(env: CompilerEnv, function: str) -> float:
    _, info = env.reset(options={"module": env.corpus[0].name, "function": function})
    while "baseline_spill_cost" not in info:
        *_, info = env.step(info["default_action"])
    return float(info["baseline_spill_cost"])
