"""`mlgo-gym demo`: the package in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.evaluate import run_with_progress
from mlgo_gym.cli.output import FAILED, echo
from mlgo_gym.cli.terminal import INTERRUPTED

POLICIES = ("default", "threshold:0", "inline-os", "always")
MODULES = 8


def demo(
    *,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results. Finished episodes in it do not run again.")
    ] = None,
) -> None:
    """Compare clang, a rule, a bundled policy and always inlining.

    They compile eight modules of Zstandard at -Os, in about a minute on two
    cores; the first run downloads the sources. Without a network, packaged
    modules take their place.

    Exit status 1: a compile failed.
    """
    from mlgo_gym.cli.tables import print_result
    from mlgo_gym.errors import UnreachableError
    from mlgo_gym.evaluation import Evaluation
    from mlgo_gym.scheduling import Execution

    def prepare(corpus: str) -> Evaluation:
        echo(f"clang alone and with {len(POLICIES)} policies on {MODULES} modules of {corpus}", err=True)
        folder = None if output is None else output / corpus
        return Evaluation("mlgo/Inline-v0", policies=POLICIES, corpus=corpus, output=folder, limit=MODULES)

    try:
        evaluation = prepare("zstd@Os")
    except UnreachableError as error:
        echo(f"mlgo-gym: {error}", err=True)
        evaluation = prepare("builtin@Os")
    with evaluation:
        if run_with_progress(evaluation, Execution(jobs=2)):
            raise typer.Exit(INTERRUPTED)
        result = evaluation.result
    print_result(result)
    best = min(result.summaries(), key=lambda summary: summary.changes["text"].total)
    change = best.changes["text"]
    saved = f"{change.baseline - change.value:,.0f} of {change.baseline:,.0f} bytes of code"
    echo(f"\nsaved:  {best.policy} saves {saved}, {-100 * change.total:.1f} %, against clang alone")
    echo("train:  python examples/sb3_ppo.py        # in a clone, after pip install '.[learn]'")
    echo("build:  MLGO_POLICY=inline-os make CC=mlgo-clang CXX=mlgo-clang++ CFLAGS=-Os CXXFLAGS=-Os")
    raise typer.Exit(FAILED if result.failures else 0)
