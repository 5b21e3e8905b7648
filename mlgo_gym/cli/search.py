"""`mlgo-gym search`: search the decisions of each module with the least cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from mlgo_gym.cli.options import CompilerOptions, ExecutionOptions, Values, option, options_of
from mlgo_gym.cli.output import echo, exit_with, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.search import CorpusSearch, SearchResult


def search(
    environment: str,
    *,
    corpus: str = "builtin",
    metric: str | None = None,
    module: Annotated[list[str] | None, option("Module to search; repeatable. Default: all.")] = None,
    values: Annotated[Values, options_of(CorpusSearch, "compiles seconds start recipes seed", compiles=50)],
    execution: ExecutionOptions,
    compiler: CompilerOptions,
    output: Annotated[Path | None, option("File for the results; the same command resumes from it.")] = None,
    as_json: bool = False,
) -> None:
    """Search the decisions of each module of a corpus with the least cost.

    A replay in a new compile verifies each result. A recipe is a text file with
    the decisions of a module: `recipes verify` repeats it, and `mlgo-clang
    --mlgo-recipes=FOLDER` uses it in builds. Exit status 1: a module failed, or
    a replay had another cost.
    """
    arguments = compiler.arguments(corpus=corpus, metric=metric)
    campaign = CorpusSearch(environment, arguments, names=tuple(module or ()), **values)
    results: list[SearchResult] = []
    if not as_json:
        echo(f"{'decisions':>9} {'compiles':>8} {'clang':>10} {'found':>10} {'change':>8}  module")
    with progress_over(len(campaign.modules()), "Modules") as advance:
        for result in campaign.run(output, execution.execution()):
            results.append(result)
            if not as_json:
                echo(_row(result))
            advance()
    done = [result for result in results if result.error is None]
    summary = ""
    if done:
        change = Change(tuple((result.cost, result.baseline) for result in done))
        compiled = sum(result.compiles for result in done)
        summary = (
            f"{len(done)} modules: total {change.total:+.2%}, geometric mean {change.mean:+.2%}, {compiled} compiles"
        )
    show(as_json, list(map(asdict, results)), summary)
    exit_with(len(done) < len(results) or not all(result.verified for result in done))


def _row(result: SearchResult) -> str:
    if result.error is not None:
        return f"{result.module} failed: {result.error.splitlines()[0]}"
    mark = "" if result.verified else "  replay differs"
    return (
        f"{len(result.actions):9} {result.compiles:8} {result.baseline:10.0f} {result.cost:10.0f} "
        f"{-result.reduction:+8.2%}  {result.module}{mark}"
    )
