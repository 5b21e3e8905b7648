"""`mlgo-gym search`: look for the decisions of each module that cost least."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.compiler import ClangOption, compiler_arguments
from mlgo_gym.cli.trust import TrustOption


def search(
    environment: Annotated[str, typer.Argument(help="The environment, for instance mlgo/Inline-v0.")],
    *,
    corpus: Annotated[str, typer.Option(help="builtin, a dataset, a folder, a .bc file, or several.")] = "builtin",
    algorithm: Annotated[str, typer.Option(help="greedy, random, hill_climb, beam, mcts or bundles.")] = "greedy",
    compiles: Annotated[int | None, typer.Option(min=1, help="The most compiles per module.")] = 50,
    seconds: Annotated[float | None, typer.Option(help="The most time per module.")] = None,
    module: Annotated[list[str] | None, typer.Option(help="Search this module alone; may be given again.")] = None,
    start: Annotated[str, typer.Option(help="With bundles: the policy whose decisions it begins with.")] = "default",
    recipes: Annotated[Path | None, typer.Option(help="A folder for recipes, one for each smaller module.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes.")] = 1,
    seed: Annotated[int, typer.Option(help="The source of chance.")] = 0,
    clang: ClangOption = None,
    output: Annotated[Path | None, typer.Option(help="A file of JSON lines; the same command goes on with it.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A further argument of the environment; VALUE is JSON."),
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Search the decisions of each module of a corpus for those that cost least.

    Every result is verified by replaying its decisions in a fresh clang. A
    recipe is a text file of a module's decisions: `replay` runs it again, and
    builds with `mlgo-clang --mlgo-recipes=FOLDER` do. Exit status 1: a module
    failed, or a replay cost something else.
    """
    from mlgo_gym.cli.evaluate import parse_settings
    from mlgo_gym.search import CorpusSearch

    chosen = {"corpus": corpus, **compiler_arguments(clang, trust)}
    arguments = {**chosen, **parse_settings(settings or ())}
    names = tuple(module or ())
    search = CorpusSearch(environment, arguments, algorithm, compiles, seconds, seed, names, start, recipes)
    results = []
    typer.echo(f"{'module':40} {'decisions':>9} {'compiles':>8} {'clang':>10} {'found':>10} {'change':>8}")
    for result in search.run(output, jobs):
        results.append(result)
        if result.error is not None:
            typer.echo(f"{result.module:40} failed: {result.error.splitlines()[0]}")
            continue
        mark = "" if result.verified else "  replay differs"
        typer.echo(
            f"{result.module:40} {len(result.actions):9} {result.compiles:8} {result.baseline:10.0f} "
            f"{result.cost:10.0f} {-result.reduction:+8.2%}{mark}"
        )
    good = [result for result in results if result.error is None]
    if good:
        logarithms = [math.log((1 + result.cost) / (1 + result.baseline)) for result in good]
        total, baseline = sum(result.cost for result in good), sum(result.baseline for result in good)
        typer.echo(
            f"{len(good)} modules: total {total / max(baseline, 1) - 1:+.2%}, geometric mean "
            f"{math.expm1(sum(logarithms) / len(logarithms)):+.2%}, {sum(result.compiles for result in good)} compiles"
        )
    raise typer.Exit(0 if len(good) == len(results) and all(result.verified for result in good) else 1)
