"""Recipes are written, read again, checked and kept."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo_clang.recipes import stored_decisions
from mlgo_gym import DecisionSite, MlgoError
from mlgo_gym.episode.attribution.recipe import Recipe, keep_recipe, read_recipe, write_recipe

RECIPE = Recipe(
    module="c/deflate",
    digest="3f" * 32,
    clang="22.1.8",
    flags=("-cc1", "-Oz", "-DX=a b"),
    text=10240,
    baseline_text=11264,
    actions={
        DecisionSite("fast", 0, 0): 0,
        DecisionSite("fast", 0, 1): 1,
        DecisionSite("fast", 0, 2): 1,
        DecisionSite("ping, pong", 0, 0): 1,
        DecisionSite("fast", 1, 0): 0,
    },
    compiles=50,
)

WEIGHTED = replace(RECIPE, metric='{"loaded": 1.0, "text": 2.0}', cost=(0.1, 1 / 3))

HEAD = "mlgo-gym recipe 1\nmodule m\ndigest d\nclang c\nflags []\ntext 1 2\n"

names = st.text(st.characters(codec="utf-8"), min_size=1)


@settings(max_examples=25)
@given(module=names, contexts=st.lists(names, max_size=4))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, module: str, contexts: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "recipe"
    actions = {DecisionSite(context, visit, index): index for visit, context in enumerate(contexts) for index in (0, 1)}
    recipe = Recipe(module, "00", "22.1.8", (), 1, 2, actions)
    write_recipe(recipe, path)
    assert read_recipe(path) == recipe


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a recipe that begins with"),
        ("mlgo-gym recipe 1\nmodule m\n\n", "got a damaged line"),
        (
            "mlgo-gym recipe 1\nmodule m\ndigest d\nclang c\nflags []\ntext 1 2\ncompiles 3\n\n0 2 f\n",
            "actions of 0 and 1",
        ),
        (f"{HEAD}compiles 3\n\n0 1 f\n0 0 f\n", "expected each visit once"),
        (f"{HEAD}compiles 3\n\n-1 1 f\n", "expected a number ≥ 0"),
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "recipe").write_text(text)
    with pytest.raises(MlgoError, match=words):
        read_recipe(tmp_path / "recipe")


@pytest.mark.parametrize("recipe", [RECIPE, WEIGHTED, replace(WEIGHTED, actions={})])
def test_a_build_reads_the_same_answers(recipe: Recipe, tmp_path: Path) -> None:
    write_recipe(recipe, tmp_path / f"{recipe.digest}.recipe")
    assert read_recipe(tmp_path / f"{recipe.digest}.recipe") == recipe
    assert stored_decisions(str(tmp_path), recipe.digest) == list(recipe.answers)


def test_the_smallest_recipe_of_a_module_is_kept(tmp_path: Path) -> None:
    for text, kept in ((10240, 10240), (10000, 10000), (10100, 10000)):
        path = keep_recipe(replace(RECIPE, text=text), tmp_path / "folder", b"BC")
        assert read_recipe(path).text == kept
    assert path.name == f"{RECIPE.digest}.recipe"
    assert path.with_suffix(".bc").read_bytes() == b"BC"
    newer = replace(RECIPE, clang="23.1.0", text=10200)
    for other in (newer, replace(newer, flags=("-cc1", "-Os"), text=10300)):
        keep_recipe(other, tmp_path / "folder", b"BC")
        assert read_recipe(path) == other, "sizes of another compiler or other flags do not compare"
    path.write_text("damaged")
    keep_recipe(RECIPE, tmp_path / "folder", b"BC")
    assert read_recipe(path) == RECIPE


def test_costs_compare_within_one_metric_and_one_plain_cost(tmp_path: Path) -> None:
    stack = replace(RECIPE, metric="stack", cost=(8, 64))
    path = keep_recipe(RECIPE, tmp_path, b"BC")
    for other in (WEIGHTED, stack):
        with pytest.raises(MlgoError, match=f"got one by text in {path}; use another folder"):
            keep_recipe(other, tmp_path, b"BC")
    assert read_recipe(path) == RECIPE
    for cost, kept in (((8, 64), (8, 64)), ((9, 64), (8, 64)), ((7, 64), (7, 64)), ((9, 65), (9, 65))):
        path = keep_recipe(replace(stack, cost=cost), tmp_path / "stack", b"BC")
        assert (read_recipe(path).metric, read_recipe(path).costs) == ("stack", kept)
