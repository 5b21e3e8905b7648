"""Tables on standard output: with lines and colours on a terminal, plain and aligned text elsewhere."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

from mlgo_gym.evaluation.report import Sheet, as_data, by_project, notes, overview
from mlgo_gym.evaluation.result import EvaluationResult


def print_result(result: EvaluationResult, *, as_json: bool = False) -> None:
    """Print what an evaluation has shown: tables and notes, or one JSON object."""
    if as_json:
        typer.echo(json.dumps(as_data(result), indent=2))
        return
    console = Console(highlight=False, markup=False)
    for sheet in (overview(result), by_project(result)):
        if sheet is not None:
            print_sheet(console, sheet)
    for line in notes(result):
        console.print(line, soft_wrap=True)


def print_sheet(console: Console, sheet: Sheet) -> None:
    """Print a table, and an empty line after it."""
    if not console.is_terminal:
        typer.echo(f"{sheet.as_text()}\n")
        return
    table = Table(title=sheet.title, title_justify="left")
    table.add_column(sheet.columns[0], overflow="fold")
    for column in sheet.columns[1:]:
        table.add_column(column, justify="right")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table)
    console.print()
