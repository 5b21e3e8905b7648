"""`mlgo-gym recipes`: what search found for the modules of builds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.compiler import ClangOption
from mlgo_gym.cli.output import FAILED, JsonOption, show
from mlgo_gym.cli.progress import progress_over

recipes_commands = typer.Typer(name="recipes", help="What search found for builds.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The folder, as in mlgo-clang's --mlgo-recipes=.")]


@recipes_commands.command("list")
def list_recipes(folder: Folder, as_json: JsonOption = False) -> None:
    """Show each recipe: bytes of clang alone, bytes by the recipe, decisions, and the compiles that it took to find."""
    from mlgo_gym.deploy.recipe_folder import stored_recipes

    lines = [f"{'digest':16} {'clang':>10} {'recipe':>10} {'change':>8} {'decisions':>9} {'compiles':>8}  module"]
    data: list[dict[str, object]] = []
    clang = text = 0
    for path, recipe in stored_recipes(folder):
        if recipe is None:
            lines.append(f"{path.stem[:16]:16} damaged")
            data.append({"digest": path.stem, "damaged": True})
            continue
        clang, text = clang + recipe.baseline_text, text + recipe.text
        lines.append(
            f"{recipe.digest[:16]:16} {recipe.baseline_text:10} {recipe.text:10} "
            f"{recipe.change:+8.2%} {len(recipe.answers):9} {recipe.compiles:8}  "
            f"{recipe.module}"
        )
        data.append(
            {
                "digest": recipe.digest,
                "module": recipe.module,
                "clang": recipe.baseline_text,
                "recipe": recipe.text,
                "decisions": len(recipe.answers),
                "compiles": recipe.compiles,
            }
        )
    lines.append(f"{'total':16} {clang:10} {text:10} {text / max(clang, 1) - 1:+8.2%}")
    show(as_json, data, "\n".join(lines))


@recipes_commands.command("verify")
def verify(
    folder: Folder,
    clang: ClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compile each module by its recipe, and compare the bytes.

    A recipe whose flags may do more than shape code is not run. Exit status 1: one does not hold.
    """
    from mlgo_gym.deploy.recipe_folder import stored_recipes, verify_recipe
    from mlgo_gym.llvm.toolchain import find_toolchain

    toolchain = find_toolchain(clang)
    stored = list(stored_recipes(folder))
    problems: dict[str, str] = {}
    with progress_over(len(stored), "Recipes") as advance:
        for path, recipe in stored:
            problem = "it is damaged" if recipe is None else verify_recipe(path, recipe, toolchain)
            if problem:
                problems[path.stem] = problem
            advance(f"{len(problems)} do not hold")
    lines = [f"{digest[:16]}: {problem}" for digest, problem in problems.items()]
    lines.append(f"{len(stored) - len(problems)} recipes hold, {len(problems)} do not")
    show(as_json, {"hold": len(stored) - len(problems), "problems": problems}, "\n".join(lines))
    raise typer.Exit(FAILED if problems else 0)


@recipes_commands.command("prune")
def prune(
    folder: Folder,
    days: Annotated[float, typer.Option(help="Remove what was not used for so many days.")] = 90,
    as_json: JsonOption = False,
) -> None:
    """Remove recipes that are damaged, or were not used for a while."""
    from mlgo_gym.deploy.recipe_folder import prune_recipes

    removed = prune_recipes(folder, days)
    show(as_json, {"removed": removed}, f"{removed} recipes removed")
