"""Recipes of search results."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mlgo_gym.attribution.recipe import read_recipe
from mlgo_gym.deploy.recipe_folder import replay_recipe
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.search import CorpusSearch, search_module
from mlgo_gym.search.recipes import make_recipe
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


def test_a_recipe_replays_and_refuses_other_bitcode_and_decisions(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode))
    result = search_module(env, env.corpus[0], "bundles", compiles=10)
    recipe = make_recipe(env, env.corpus[0], result.actions)
    assert recipe.answers == result.actions
    assert (recipe.text, recipe.baseline_text) == (result.cost, result.baseline)
    module, toolchain = env.corpus[0], env.toolchain
    assert replay_recipe(recipe, module, toolchain) == ""
    assert "search again" in replay_recipe(dataclasses.replace(recipe, digest="00"), module, toolchain)
    text = recipe.text + 1
    assert f"expected {text} bytes, got" in replay_recipe(dataclasses.replace(recipe, text=text), module, toolchain)
    fewer = dict(list(recipe.actions.items())[:1])
    assert (
        replay_recipe(dataclasses.replace(recipe, actions=fewer), module, toolchain) == "expected 1 requests, got more"
    )
    with pytest.raises(MlgoError, match=r"expected 1 decisions, got \d+;"):
        make_recipe(env, module, result.actions[:1])


def test_a_search_of_a_corpus_writes_recipes(bitcode: Path, tmp_path: Path) -> None:
    search = CorpusSearch(
        "mlgo/Inline-v0", {"corpus": str(bitcode)}, "bundles", compiles=25, recipes=tmp_path / "recipes"
    )
    (result,) = search.run()
    (path,) = (tmp_path / "recipes").glob("*.recipe")
    recipe = read_recipe(path)
    assert (path.stem, recipe.module, recipe.compiles) == (recipe.digest, result.module, result.compiles)
    assert recipe.answers == result.actions
