"""Tables on standard output: with lines and colours on a terminal, plain and aligned text elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from mlgo_gym.cli.output import NamingConsole, print_json, say
from mlgo_gym.evaluation.linking import LinkedSize, linked_table
from mlgo_gym.evaluation.report import all_tables, as_data, notes, short_tables
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.table import Table, fitting_columns

PICTURE_WIDTH = 120
"""The columns of the terminal that a picture shows."""

_GAP = 3
"""What a column takes beyond its text: padding and a separator."""


def print_result(
    result: EvaluationResult, *, as_json: bool = False, linked: Sequence[LinkedSize] = (), everything: bool = False
) -> None:
    """Print what an evaluation has shown, and what was linked: tables and notes, or one JSON object.

    Args:
        result: the evaluation.
        as_json: print one JSON object, with everything.
        linked: what was linked.
        everything: also print the tables that take longer to read.
    """
    if as_json:
        links = {"links": [row.to_json() for row in linked]} if linked else {}
        print_json(as_data(result) | links)
        return
    console = NamingConsole(highlight=False, markup=False)
    _print_tables(console, result, all_tables(result) if everything else short_tables(result))
    if linked:
        console.print()
        print_table(console, linked_table(linked))
    for error in dict.fromkeys(f"{row.output}, {row.policy}: {row.error}" for row in linked if row.error):
        console.print(error, soft_wrap=True)


def draw_result(result: EvaluationResult, path: Path, title: str) -> None:
    """Write what `print_result()` prints on a wide terminal as an SVG picture."""
    console = NamingConsole(
        highlight=False, markup=False, record=True, file=io.StringIO(), force_terminal=True, width=PICTURE_WIDTH
    )
    _print_tables(console, result, short_tables(result))
    path.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(path), title=title)


def _print_tables(console: Console, result: EvaluationResult, tables: Sequence[Table]) -> None:
    for table in tables:
        print_table(console, table)
    for line in notes(result):
        console.print(line, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """Print a table, and an empty line after it; on a narrow terminal, columns that do not fit go below the others."""
    if not console.is_terminal:
        say(f"{table.as_text()}\n")
        return
    console.print(table.title, soft_wrap=True)
    for columns in fitting_columns(table, console.width, _GAP):
        drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for column in columns:
            drawn.add_column(table.columns[column], justify="right" if column else "left", no_wrap=True)
        for row in table.rows:
            drawn.add_row(*(row[column] for column in columns))
        console.print(drawn)
