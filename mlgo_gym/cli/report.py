"""`mlgo-gym report` and `mlgo-gym compare`: reports on evaluations."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from mlgo_gym.cache import write_atomically
from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import echo, show
from mlgo_gym.evaluation.comparison import compare as compare_runs
from mlgo_gym.evaluation.report import all_tables, as_data, notes, page
from mlgo_gym.evaluation.result import load_results, with_smallest
from mlgo_gym.evaluation.table import PAGE_COLUMNS, Table


def print_tables(tables: Sequence[Table], lines: Sequence[str] = ()) -> None:
    """Print tables as wide as the terminal, with an empty line each, and lines below."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_COLUMNS
    for table in tables:
        echo(f"{table.as_text(width)}\n")
    for line in lines:
        echo(line)


def report(
    runs: Annotated[list[Path], argument("Outputs of `evaluate`.")],
    *,
    html: Annotated[Path | None, option("File for an HTML page with tables and figures.")] = None,
    as_json: bool = False,
    smallest: bool = False,
) -> None:
    """Print the tables of evaluations, with intervals, wins and losses.

    --html writes one page without scripts and references: tables, figures, and
    the commands that reproduce results. The page needs the extra `report`.
    Evaluations may be unfinished. With --json, several evaluations are one
    object by their names.
    """
    evaluations = load_results(runs)
    if smallest:
        evaluations = {name: with_smallest(result) for name, result in evaluations.items()}
    data = {name: as_data(result) for name, result in evaluations.items()}
    if as_json:
        show(True, next(iter(data.values())) if len(data) == 1 else data, "")
    for number, (name, result) in enumerate({} if as_json else evaluations.items()):
        if len(evaluations) > 1:
            echo(f"{chr(10) * bool(number)}== {name} ==\n")
        print_tables(all_tables(result), notes(result))
    if html is not None:
        write_atomically(html, page(evaluations).encode())
        echo(f"wrote {html}", err=True)


def compare(
    runs: Annotated[list[Path], argument("Outputs of `evaluate`; the first is the reference.")],
    *,
    as_json: bool = False,
) -> None:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared module by module, with 95 % intervals over projects and modules. If two
    evaluations share no policy, each is compared with each. Evaluations with other modules, flags or compilers are
    refused; the message has the first difference.
    """
    comparison = compare_runs(load_results(runs))
    if as_json:
        show(True, comparison.to_json(), "")
    else:
        print_tables(comparison.tables(), comparison.notes)
