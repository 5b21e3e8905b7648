"""Searches of a corpus, in several processes and resumed, and the recipes of their results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from mlgo_gym.attribution.recipe import read_recipe
from mlgo_gym.deploy.recipe_folder import replay_recipe
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch, SearchResult
from mlgo_gym.search.recipes import make_recipe
from tests.conftest import MakeBitcode

INLINE = "mlgo/Inline-v0"


def test_an_interrupted_search_resumes(corpus: Path, tmp_path: Path) -> None:
    arguments, output = {"corpus": str(corpus)}, tmp_path / "found.jsonl"
    search = CorpusSearch(INLINE, arguments, "greedy", compiles=3)
    full = list(search.run(output))
    assert sorted(result.module for result in full) == ["calls", "more/calls"]
    assert all(result.verified for result in full)
    lines = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    again = list(search.run(output, execution=Execution(2)))
    assert sorted(result.module for result in again) == ["calls", "more/calls"]
    kept = [SearchResult.from_json(json.loads(line)) for line in output.read_bytes().splitlines()[1:]]
    assert sorted((result.module, result.cost) for result in kept) == sorted((each.module, each.cost) for each in full)
    with pytest.raises(MlgoError, match="choose another output"):
        list(CorpusSearch(INLINE, arguments, "beam", compiles=3).run(output))
    with pytest.raises(CorpusError, match="has no module 'no_such'"):
        CorpusSearch(INLINE, arguments, "greedy", names=("no_such",)).modules()


def test_a_start_policy_with_callee_features_switches_them_on(varied: str) -> None:
    search = CorpusSearch(INLINE, {"corpus": varied}, "bundles", 2, names=("many_calls",), start="inline-oz")
    (found,) = search.run()
    assert (found.error, found.verified) == (None, True)


def test_a_recipe_of_a_search_replays_and_refuses_other_bitcode_and_decisions(
    make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    corpus, recipes = str(make_bitcode("families.c")), tmp_path / "recipes"
    (result,) = CorpusSearch(INLINE, {"corpus": corpus}, "bundles", compiles=12, recipes=recipes).run()
    (path,) = recipes.glob("*.recipe")
    recipe = read_recipe(path)
    assert (path.stem, recipe.module, recipe.compiles) == (recipe.digest, result.module, result.compiles)
    assert (recipe.answers, recipe.text, recipe.baseline_text) == (result.actions, result.cost, result.baseline)
    env = InlineEnv(corpus=corpus)
    module, toolchain = env.corpus[0], env.toolchain
    assert replay_recipe(recipe, module, toolchain) == ""
    assert "search again" in replay_recipe(dataclasses.replace(recipe, digest="00"), module, toolchain)
    text = recipe.text + 1
    assert f"expected {text} bytes, got" in replay_recipe(dataclasses.replace(recipe, text=text), module, toolchain)
    fewer = dataclasses.replace(recipe, actions=dict(list(recipe.actions.items())[:1]))
    assert replay_recipe(fewer, module, toolchain) == "expected 1 requests, got more"
    with pytest.raises(MlgoError, match=r"expected 1 decisions, got \d+;"):
        make_recipe(env, module, result.actions[:1])
