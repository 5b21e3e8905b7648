"""Search by bundles of flips, and the recipes of what it finds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.episode.placed_compile import PlacedCompile, compile_placed
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.policies import load_policy
from mlgo_gym.search import CorpusSearch, search_module
from mlgo_gym.search.recipe_making import make_recipe, replay_recipe
from mlgo_gym.search.rules import PORTFOLIO
from mlgo_gym.storage.recipe import read_recipe
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


@pytest.fixture(scope="module")
def env(bitcode: Path) -> InlineEnv:
    return InlineEnv(corpus=str(bitcode))


def test_what_it_finds_is_confirmed_by_a_fresh_clang(env: InlineEnv) -> None:
    result = search_module(env, env.corpus[0], "bundles", compiles=25)
    assert result.verified
    assert result.cost < result.baseline
    assert result.compiles <= 25


def test_it_is_the_same_each_time(env: InlineEnv) -> None:
    first, second = (search_module(env, env.corpus[0], "bundles", compiles=8, seed=3) for _ in range(2))
    assert first.improvements == second.improvements
    assert first.actions == second.actions


def test_it_begins_with_the_decisions_of_any_policy(env: InlineEnv) -> None:
    never = search_module(env, env.corpus[0], "bundles", compiles=1, start="never")
    assert never.actions
    assert not any(never.actions)
    with pytest.raises(MlgoError, match="begins with any policy must be one of"):
        search_module(env, env.corpus[0], "greedy", compiles=1, start="never")


def test_it_begins_with_the_decisions_of_a_policy_that_sees_calls(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), calls=True)
    policy = load_policy("inline-oz-calls", env)
    observation, info = env.reset(options={"module": env.corpus[0].name})
    actions, over = [], False
    while not over:
        actions.append(int(policy.act(observation, info)))
        observation, _, over, _, info = env.step(actions[-1])
    first = search_module(env, env.corpus[0], "bundles", compiles=1, start="inline-oz-calls")
    assert first.actions == tuple(actions)
    assert first.verified
    more = search_module(env, env.corpus[0], "bundles", compiles=12, start="inline-oz-calls")
    assert more.verified
    assert more.cost <= first.cost


def test_it_is_no_worse_than_the_best_policy_of_its_portfolio(env: InlineEnv) -> None:
    alone = [search_module(env, env.corpus[0], "bundles", compiles=1, start=name).cost for name in PORTFOLIO]
    assert search_module(env, env.corpus[0], "bundles", compiles=len(PORTFOLIO) + 2).cost <= min(alone)


def test_compiles_that_fail_are_counted_and_the_search_goes_on(env: InlineEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def failing(*arguments: Any, **options: Any) -> PlacedCompile:
        nonlocal calls
        calls += 1
        if calls in (2, 7):
            raise CompilerError("clang was to compile, and crashed")
        return compile_placed(*arguments, **options)

    monkeypatch.setattr("mlgo_gym.search.bundles.compile_placed", failing)
    result = search_module(env, env.corpus[0], "bundles", compiles=20)
    assert (result.failed, result.compiles) == (2, 20)
    assert result.verified
    assert result.cost < result.baseline


def test_a_first_compile_that_fails_is_an_error(env: InlineEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> PlacedCompile:
        raise CompilerError("clang was to compile, and crashed")

    monkeypatch.setattr("mlgo_gym.search.bundles.compile_placed", failing)
    with pytest.raises(CompilerError, match="crashed"):
        search_module(env, env.corpus[0], "bundles", compiles=3)


def test_without_a_limit_it_ends_by_itself(make_bitcode: MakeBitcode) -> None:
    env = InlineEnv(corpus=str(make_bitcode("calls.c")))
    result = search_module(env, env.corpus[0], "bundles")
    assert result.verified


def test_it_refuses_what_it_cannot_attribute(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), metric="object")
    with pytest.raises(MlgoError, match="needs the metric 'text'"):
        search_module(env, env.corpus[0], "bundles", compiles=2)
    other = RegAllocEvictEnv(corpus=str(bitcode), reward="text")
    with pytest.raises(MlgoError, match="use mlgo/Inline-v0"):
        search_module(other, other.corpus[0], "bundles", compiles=2)


def test_a_recipe_comes_out_again_and_is_refused_for_anything_else(env: InlineEnv) -> None:
    result = search_module(env, env.corpus[0], "bundles", compiles=10)
    recipe = make_recipe(env, env.corpus[0], result.actions)
    assert recipe.answers == result.actions
    assert (recipe.text, recipe.baseline_text) == (result.cost, result.baseline)
    assert replay_recipe(env, recipe).text == result.cost
    with pytest.raises(MlgoError, match="search again"):
        replay_recipe(env, dataclasses.replace(recipe, digest="00"))
    with pytest.raises(MlgoError, match="came to"):
        replay_recipe(env, dataclasses.replace(recipe, text=recipe.text + 1))
    with pytest.raises(MlgoError, match="clang asked more than"):
        replay_recipe(env, dataclasses.replace(recipe, visits=recipe.visits[:1]))


def test_a_search_over_a_corpus_writes_recipes(bitcode: Path, tmp_path: Path) -> None:
    search = CorpusSearch(
        "mlgo/Inline-v0", {"corpus": str(bitcode)}, "bundles", compiles=25, recipes=tmp_path / "recipes"
    )
    (result,) = search.run()
    (path,) = (tmp_path / "recipes").glob("*.recipe")
    recipe = read_recipe(path)
    assert (path.stem, recipe.module, recipe.compiles) == (recipe.digest, result.module, result.compiles)
    assert recipe.answers == result.actions
