"""`mlgo-gym search`: look for the decisions of each module that cost least."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.machines import JobsOption, RayOption, address_of
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import FAILED, JsonOption, say, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.running import RunningChanges

if TYPE_CHECKING:
    from mlgo_gym.search import SearchResult


@with_options("compiler", CompilerOptions)
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
    jobs: JobsOption = None,
    ray: RayOption = None,
    seed: Annotated[int, typer.Option(help="The source of chance.")] = 0,
    compiler: CompilerOptions,
    output: Annotated[Path | None, typer.Option(help="A file of JSON lines; the same command goes on with it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Search the decisions of each module of a corpus for those that cost least.

    Every result is verified by replaying its decisions in a fresh clang. A
    recipe is a text file of a module's decisions: `replay` runs it again, and
    builds with `mlgo-clang --mlgo-recipes=FOLDER` do. Exit status 1: a module
    failed, or a replay cost something else.
    """
    from mlgo_gym.search import CorpusSearch

    arguments = {"corpus": corpus, **compiler.arguments()}
    names = tuple(module or ())
    search = CorpusSearch(environment, arguments, algorithm, compiles, seconds, seed, names, start, recipes)
    results: list[SearchResult] = []
    running = RunningChanges()
    if not as_json:
        say(f"{'decisions':>9} {'compiles':>8} {'clang':>10} {'found':>10} {'change':>8}  module")
    with progress_over(len(search.modules()), "Modules") as advance:
        for result in search.run(output, jobs, ray=address_of(ray)):
            results.append(result)
            if not as_json:
                say(_row(result))
            advance(running.add("", result.cost, result.baseline) if result.error is None else str(running))
    good = [result for result in results if result.error is None]
    total, baseline = sum(result.cost for result in good), sum(result.baseline for result in good)
    compiled = sum(result.compiles for result in good)
    show(
        as_json,
        [result.to_json() for result in results],
        f"{len(good)} modules: total {total / max(baseline, 1) - 1:+.2%}, geometric mean {running}, {compiled} compiles"
        if good
        else "",
    )
    raise typer.Exit(0 if len(good) == len(results) and all(result.verified for result in good) else FAILED)


def _row(result: SearchResult) -> str:
    if result.error is not None:
        return f"{result.module} failed: {result.error.splitlines()[0]}"
    mark = "" if result.verified else "  replay differs"
    return (
        f"{len(result.actions):9} {result.compiles:8} {result.baseline:10.0f} {result.cost:10.0f} "
        f"{-result.reduction:+8.2%}  {result.module}{mark}"
    )
