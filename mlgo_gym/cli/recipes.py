"""`mlgo-gym recipes` and `mlgo-gym cc-stats`: recipes and outcome counters of `mlgo-clang`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import ClangOption, argument, option
from mlgo_gym.cli.output import JsonOption, aligned, exit_with, show
from mlgo_gym.cli.progress import progress_over

recipes_commands = typer.Typer(name="recipes", help="Decisions that searches found.", no_args_is_help=True)

Folder = Annotated[Path, argument("Folder of recipes, as for mlgo-clang --mlgo-recipes=.")]


@recipes_commands.command("list")
def list_recipes(folder: Folder, as_json: JsonOption = False) -> None:
    """List recipes: cost of clang alone and with the recipe, decisions, and compiles of the search.

    The cost are bytes for inlining, and for evictions that of the search's metric; the total has bytes.
    """
    from mlgo_gym.episode.attribution.recipe import stored_recipes

    rows: list[tuple[object, ...]] = [("digest", "clang", "recipe", "change", "decisions", "compiles", "module")]
    data: list[dict[str, object]] = []
    clang = text = 0
    for path, recipe in stored_recipes(folder):
        if recipe is None:
            rows.append((path.stem[:16], *[""] * 5, "damaged"))
            data.append({"digest": path.stem, "damaged": True})
            continue
        clang, text = clang + recipe.baseline_text, text + recipe.text
        cost, plain = recipe.cost or (recipe.text, recipe.baseline_text)
        decisions, compiles = len(recipe.answers), recipe.compiles
        numbers = round(plain), round(cost), f"{recipe.change:+8.2%}", decisions, compiles
        rows.append((recipe.digest[:16], *numbers, recipe.module))
        sizes = {"clang": recipe.baseline_text, "recipe": recipe.text, "change": recipe.change}
        entry = {"digest": recipe.digest, "module": recipe.module, **sizes}
        data.append({**entry, "decisions": decisions, "compiles": compiles})
    rows.append(("total", clang, text, f"{text / clang - 1 if clang else 0:+8.2%}", "", "", ""))
    show(as_json, data, aligned(rows))


@recipes_commands.command("verify")
def verify(folder: Folder, clang: ClangOption = None, as_json: JsonOption = False) -> None:
    """Compile each module with its recipe, and compare the bytes.

    Recipes with flags that do more than shape code are not run. Exit status 1: a recipe failed.
    """
    from mlgo_gym.deploy.recipes import verify_recipe
    from mlgo_gym.episode.attribution.recipe import stored_recipes
    from mlgo_gym.llvm.toolchain import find_toolchain

    toolchain = find_toolchain(clang)
    stored = list(stored_recipes(folder))
    problems: dict[str, str] = {}
    with progress_over(len(stored), "Recipes") as advance:
        for path, recipe in stored:
            problem = "damaged" if recipe is None else verify_recipe(path, recipe, toolchain)
            if problem:
                problems[path.stem] = problem
            advance(f"{len(problems)} failed")
    lines = [f"{digest[:16]}: {problem}" for digest, problem in problems.items()]
    lines.append(f"{len(stored) - len(problems)} recipes verified, {len(problems)} failed")
    show(as_json, {"verified": len(stored) - len(problems), "problems": problems}, "\n".join(lines))
    exit_with(problems)


@recipes_commands.command("prune")
def prune(
    folder: Folder,
    days: Annotated[float, option("Age of the last use in days (≥ 0).")] = 90,
    as_json: JsonOption = False,
) -> None:
    """Remove recipes that are damaged, or unused for a number of days."""
    from mlgo_gym.episode.attribution.recipe import prune_recipes

    removed = prune_recipes(folder, days)
    show(as_json, {"removed": removed}, f"{removed} recipes removed")


def cc_stats(
    *,
    zero: Annotated[bool, option("Reset the counters.", "--zero")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how many compiles of mlgo-clang used a policy, and how many did not, by reason.

    The counters are in the cache folder, one file for all builds.
    """
    from mlgo_clang.counters import read_counters, remove_counters

    ordered = sorted(read_counters().items(), key=lambda item: (item[0].startswith("because "), -item[1]))
    lines = [f"{number:8}  {name}" for name, number in ordered]
    show(as_json, dict(ordered), "\n".join(lines or ["mlgo-clang has compiled nothing"]))
    if zero:
        remove_counters()
