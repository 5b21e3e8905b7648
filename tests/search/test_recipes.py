"""Recipes of search results."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mlgo_gym.attribution.recipe import read_recipe
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.search import CorpusSearch, search_module
from mlgo_gym.search.recipes import make_recipe, replay_recipe
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
    assert replay_recipe(env, recipe).text == result.cost
    with pytest.raises(MlgoError, match="search again"):
        replay_recipe(env, dataclasses.replace(recipe, digest="00"))
    with pytest.raises(MlgoError, match="bytes and"):
        replay_recipe(env, dataclasses.replace(recipe, text=recipe.text + 1))
    with pytest.raises(MlgoError, match=r"expected 1 decisions, got \d+;"):
        replay_recipe(env, dataclasses.replace(recipe, actions=dict(list(recipe.actions.items())[:1])))


def test_a_search_of_a_corpus_writes_recipes(bitcode: Path, tmp_path: Path) -> None:
    search = CorpusSearch(
        "mlgo/Inline-v0", {"corpus": str(bitcode)}, "bundles", compiles=25, recipes=tmp_path / "recipes"
    )
    (result,) = search.run()
    (path,) = (tmp_path / "recipes").glob("*.recipe")
    recipe = read_recipe(path)
    assert (path.stem, recipe.module, recipe.compiles) == (recipe.digest, result.module, result.compiles)
    assert recipe.answers == result.actions
