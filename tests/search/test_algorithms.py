"""Search algorithms find verified actions that cost no more than clang's own choices, within the budget."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.search import ALGORITHMS, Budget, SearchResult, SearchSpace, search_module
from mlgo_gym.search.look_ahead import beam
from mlgo_gym.search.portfolio import PORTFOLIO
from tests.conftest import MakeBitcode
from tests.policies.episodes import play

OF_INLINING = [name for name in ALGORITHMS if name != "functions"]
"""The algorithms that search inlining decisions."""


def search(env: CompilerEnv, algorithm: str, module: str | None = None, **settings: Any) -> SearchResult:
    return search_module(env, env.corpus[0] if module is None else env.corpus.module(module), algorithm, **settings)


@pytest.fixture(scope="module")
def inline(make_bitcode: MakeBitcode) -> InlineEnv:
    return InlineEnv(corpus=str(make_bitcode("calls.c")))


@pytest.fixture(scope="module")
def families(make_bitcode: MakeBitcode) -> Callable[..., InlineEnv]:
    bitcode = str(make_bitcode("families.c"))
    return lambda **arguments: InlineEnv(corpus=bitcode, **arguments)


@pytest.mark.parametrize("algorithm", OF_INLINING)
def test_equal_seeds_find_equal_verified_decisions_within_the_budget(inline: CompilerEnv, algorithm: str) -> None:
    result, again = (search(inline, algorithm, compiles=8, seed=3) for _ in range(2))
    assert result.verified
    assert result.compiles <= 8
    assert result.cost <= result.baseline
    assert (result.actions, result.improvements) == (again.actions, again.improvements)


def test_nothing_is_left_of_a_search(make_bitcode: MakeBitcode, nothing_is_left: None) -> None:
    with InlineEnv(corpus=str(make_bitcode("calls.c"))) as env:
        for algorithm in ("mcts", "bundles"):
            search(env, algorithm, compiles=3)


@pytest.mark.slow
def test_a_wide_beam_and_an_exhausted_tree_find_the_optimum(calls: Path) -> None:
    tried = 4
    env = InlineEnv(corpus=str(calls), max_decisions=tried)
    optimum = float("inf")
    space = SearchSpace(env, env.corpus[0], Budget())
    for choices in itertools.product(range(space.size), repeat=tried):
        with space.root() as branch:
            for choice in choices:
                if branch.decision is not None:
                    branch.take(choice)
            assert branch.decision is None, "the module has more decisions"
            optimum = min(optimum, branch.leaf().cost)
    assert beam(SearchSpace(env, env.corpus[0], Budget()), width=64).cost == optimum
    found = search(env, "mcts", compiles=400)
    assert found.cost == optimum
    assert found.compiles <= 2**tried, "no path is compiled twice"


def test_other_spaces_algorithms_and_modules_without_decisions_are_refused(
    inline: CompilerEnv, leaf: Path, calls: Path, varied: str
) -> None:
    with pytest.raises(MlgoError, match="Discrete"):
        search(RegAllocPriorityEnv(corpus=str(calls)), "greedy")
    with pytest.raises(MlgoError, match="greedy, random"):
        search(inline, "magic")
    with pytest.raises(CorpusError, match="expected a decision on inlining"):
        search(InlineEnv(corpus=str(leaf)), "greedy")
    with pytest.raises(MlgoError, match="starts from a policy, got 'greedy'"):
        search(inline, "greedy", compiles=1, start="never")
    with pytest.raises(MlgoError, match="expected metrics that functions share, text"):
        search(InlineEnv(corpus=str(calls), metric="object"), "bundles", compiles=2)
    sizes = make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "metric": "text"})
    with pytest.raises(MlgoError, match="use mlgo/Inline-v0"):
        search(sizes, "bundles", compiles=2)
    for env in (sizes, inline):
        with pytest.raises(MlgoError, match="expected evictions of whole modules"):
            search(env, "functions", compiles=2)
    for compiles, seconds in ((0, None), (None, 0.0), (None, -1.0)):
        with pytest.raises(MlgoError, match="use None for no limit"):
            Budget(compiles, seconds)
    space = SearchSpace(inline, inline.corpus[0], Budget())
    with space.root() as root:
        actions = root.roll_out().actions
    with pytest.raises(MlgoError, match="to replay, got more"):
        space.replay(actions[:-1])
    with pytest.raises(MlgoError, match="decisions to replay, got"):
        space.replay((*actions, 0))


def test_evictions_of_one_function_improve_and_a_result_has_the_cost_within_a_smaller_budget(
    make_bitcode: MakeBitcode, inline: CompilerEnv
) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), scope="function", max_decisions=3)
    full = search(env, "greedy", compiles=40)
    assert full.verified
    assert full.cost < full.baseline
    assert len(full.improvements) > 1
    assert full.cost_after(8) == search(env, "greedy", compiles=8).cost
    assert (full.cost_after(0), full.cost_after(40)) == (full.baseline, full.cost)
    assert SearchResult.from_json(json.loads(json.dumps(full.to_json()))) == full
    unimproved = search(inline, "greedy")
    if not unimproved.improvements[1:]:
        assert unimproved.compiles == 1 + len(unimproved.actions), "one pass"


@pytest.mark.slow
def test_greedy_search_repeats_its_pass_after_an_improvement(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), scope="function", max_decisions=3)
    improved = search(env, "greedy")
    assert improved.cost < improved.baseline
    last, _ = improved.improvements[-1]
    first_pass = 0
    with SearchSpace(env, env.corpus[0], Budget()).root() as branch:
        for action in improved.actions:
            first_pass += len(branch.candidates()) - 1
            branch.take(action)
    assert improved.compiles - last >= first_pass


def test_one_function_is_searched_with_the_scope_of_a_function(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("spills.c")), scope="function")
    result = search(env, "greedy", compiles=8, function="straight")
    assert result.verified
    assert result.actions
    _, info = env.reset(options={"module": env.corpus[0].name, "function": "straight"})
    while "baseline_spill_cost" not in info:
        *_, info = env.step(info["default_action"])
    assert result.baseline == info["baseline_spill_cost"]
    with pytest.raises(CorpusError, match="'easy'"):
        search(env, "greedy", compiles=20, function="easy")


def test_bundles_start_from_policies_and_end_without_a_budget(
    families: Callable[..., InlineEnv], inline: CompilerEnv
) -> None:
    env = families(callee_features=True)
    never = search(env, "bundles", compiles=1, start="never")
    assert never.actions
    assert not any(never.actions)
    actions, _ = play(env, load_policy("inline-oz", env), env.corpus[0].name)
    first = search(env, "bundles", compiles=1, start="inline-oz")
    assert (first.actions, first.verified) == (tuple(actions), True)
    more = search(env, "bundles", compiles=6, start="inline-oz")
    assert more.verified
    assert more.cost <= first.cost
    assert search(inline, "bundles").verified


def test_bundles_are_no_worse_than_their_portfolio(families: Callable[..., InlineEnv]) -> None:
    env = families()
    alone = [search(env, "bundles", compiles=1, start=name).cost for name in PORTFOLIO]
    result = search(env, "bundles", compiles=len(PORTFOLIO) + 6)
    assert result.verified
    assert result.cost <= min(alone)
    assert result.cost < result.baseline
    assert result.compiles <= len(PORTFOLIO) + 6


@pytest.mark.parametrize("metric", ["spill_cost", pytest.param("estimated-instructions", marks=pytest.mark.slow)])
def test_evictions_of_all_functions_are_searched_at_once(metric: str, varied: str) -> None:
    pytest.importorskip("capstone")
    env = make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "metric": metric})
    result, again = (search(env, "functions", "mixed", compiles=8, seed=3) for _ in range(2))
    assert (result.verified, result.compiles, result.actions) == (True, 8, again.actions)
    assert result.cost < result.baseline
    costs = [cost for _, cost in result.improvements]
    assert costs == sorted(costs, reverse=True)
    assert result.cost == pytest.approx(costs[-1]), "the prediction"
    # Each function keeps the better of clang and a policy.
    clang = search(env, "functions", "mixed", compiles=2)
    for policy in ("never_evict", "first_legal"):
        guarded = search(env, "functions", "mixed", compiles=3, start=policy)
        assert guarded.verified
        assert guarded.cost <= clang.cost + 1e-9
    with pytest.raises(CorpusError, match="expected a decision on eviction"):
        search(env, "functions", "leaf", compiles=2)


def test_failed_compiles_are_counted_and_a_failed_first_one_is_an_error(
    make_bitcode: MakeBitcode, tmp_path: Path, own_cache: Path
) -> None:
    zig, mode = bundled_command()
    program, starts = tmp_path / "failing-clang", tmp_path / "starts"

    def found(failing: str, compiles: int) -> SearchResult:
        """Search with a clang that fails at some of its starts with a channel; the first reads features."""
        starts.write_text("")
        count = f'echo started >> "{starts}"; case $(grep -c . "{starts}") in {failing}) exit 9;; esac'
        program.write_text(f'#!/bin/sh\ncase "$*" in *interactive-channel*) {count};; esac\nexec "{zig}" {mode} "$@"\n')
        program.chmod(0o755)
        env = InlineEnv(corpus=str(make_bitcode("families.c")), clang=str(program))
        return search(env, "bundles", compiles=compiles)

    result = found("3|6", 10)
    assert (result.failed, result.compiles, result.verified) == (2, 10, True)
    assert result.cost <= result.baseline
    with pytest.raises(CompilerError, match="exit status 9"):
        found("2", 3)
