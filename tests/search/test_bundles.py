"""Search by bundles of flips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.attribution.inline_compile import InlineCompile, run_inline_compile
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.policies import load_policy
from mlgo_gym.search import search_module
from mlgo_gym.search.portfolio import PORTFOLIO
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


@pytest.fixture(scope="module")
def env(bitcode: Path) -> InlineEnv:
    return InlineEnv(corpus=str(bitcode))


def test_a_replay_verifies_the_result(env: InlineEnv) -> None:
    result = search_module(env, env.corpus[0], "bundles", compiles=25)
    assert result.verified
    assert result.cost < result.baseline
    assert result.compiles <= 25


def test_equal_seeds_give_equal_results(env: InlineEnv) -> None:
    first, second = (search_module(env, env.corpus[0], "bundles", compiles=8, seed=3) for _ in range(2))
    assert first.improvements == second.improvements
    assert first.actions == second.actions


def test_it_starts_from_the_decisions_of_a_policy(env: InlineEnv) -> None:
    never = search_module(env, env.corpus[0], "bundles", compiles=1, start="never")
    assert never.actions
    assert not any(never.actions)
    with pytest.raises(MlgoError, match="starts from a policy, got 'greedy'"):
        search_module(env, env.corpus[0], "greedy", compiles=1, start="never")


def test_it_starts_from_a_policy_with_callee_features(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), callee_features=True)
    policy = load_policy("inline-oz", env)
    observation, info = env.reset(options={"module": env.corpus[0].name})
    actions, over = [], False
    while not over:
        actions.append(int(policy.act(observation, info)))
        observation, _, over, _, info = env.step(actions[-1])
    first = search_module(env, env.corpus[0], "bundles", compiles=1, start="inline-oz")
    assert first.actions == tuple(actions)
    assert first.verified
    more = search_module(env, env.corpus[0], "bundles", compiles=12, start="inline-oz")
    assert more.verified
    assert more.cost <= first.cost


def test_it_is_no_worse_than_its_portfolio(env: InlineEnv) -> None:
    alone = [search_module(env, env.corpus[0], "bundles", compiles=1, start=name).cost for name in PORTFOLIO]
    assert search_module(env, env.corpus[0], "bundles", compiles=len(PORTFOLIO) + 3).cost <= min(alone)


def test_failed_compiles_are_counted_and_the_search_continues(env: InlineEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def failing(*arguments: Any, **options: Any) -> InlineCompile:
        nonlocal calls
        calls += 1
        if calls in (2, 7):
            raise CompilerError("clang crashed")
        return run_inline_compile(*arguments, **options)

    monkeypatch.setattr("mlgo_gym.search.bundles.run_inline_compile", failing)
    result = search_module(env, env.corpus[0], "bundles", compiles=20)
    assert (result.failed, result.compiles) == (2, 20)
    assert result.verified
    assert result.cost < result.baseline


def test_a_failed_first_compile_is_an_error(env: InlineEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> InlineCompile:
        raise CompilerError("clang crashed")

    monkeypatch.setattr("mlgo_gym.search.bundles.run_inline_compile", failing)
    with pytest.raises(CompilerError, match="crashed"):
        search_module(env, env.corpus[0], "bundles", compiles=3)


def test_without_a_budget_it_ends(make_bitcode: MakeBitcode) -> None:
    env = InlineEnv(corpus=str(make_bitcode("calls.c")))
    result = search_module(env, env.corpus[0], "bundles")
    assert result.verified


def test_other_metrics_and_tasks_are_refused(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), metric="object")
    with pytest.raises(MlgoError, match="expected metrics that functions share, text"):
        search_module(env, env.corpus[0], "bundles", compiles=2)
    other = RegAllocEvictEnv(corpus=str(bitcode), metric="text")
    with pytest.raises(MlgoError, match="use mlgo/Inline-v0"):
        search_module(other, other.corpus[0], "bundles", compiles=2)
