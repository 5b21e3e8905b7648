"""`mlgo-gym compare`: what changed from one evaluation to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, NamingConsole, print_json


def compare(
    runs: Annotated[list[Path], typer.Argument(help="The --output of evaluations; the first is compared with.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Say what changed from the first evaluation to each other one.

    Policies of one name are compared module by module, with 95 % intervals over
    projects and modules; where two runs share no policy, each with each. Runs of
    other modules, flags or compilers are refused, and the first difference named.
    """
    from mlgo_gym.cli.tables import print_table
    from mlgo_gym.evaluation.result import load_result
    from mlgo_gym.reporting.comparison import compare as compare_runs
    from mlgo_gym.reporting.run_names import run_names

    comparison = compare_runs({name: load_result(path) for name, path in run_names(runs).items()})
    if as_json:
        print_json(comparison.to_json())
        return
    console = NamingConsole(highlight=False, markup=False)
    for table in comparison.tables():
        print_table(console, table)
    for line in comparison.notes:
        console.print(line, soft_wrap=True)
