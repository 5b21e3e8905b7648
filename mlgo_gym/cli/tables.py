"""Tables on standard output: with lines and colours on a terminal, aligned text elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from mlgo_gym.cli.output import SafeConsole, echo, print_json
from mlgo_gym.evaluation.linking import LinkResult, linked_table
from mlgo_gym.evaluation.programs import ProgramResult, programs_tables
from mlgo_gym.evaluation.report import as_data, notes, short_tables
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.table import Table

PICTURE_WIDTH = 120
"""Width of a picture, in terminal columns."""

_GAP = 3
"""Width of a column beyond its text: padding and separator."""


def print_result(
    result: EvaluationResult,
    *,
    as_json: bool = False,
    linked: Sequence[LinkResult] = (),
    programs: Sequence[ProgramResult] = (),
) -> None:
    """Print the result of an evaluation, links and programs: tables and notes, or one JSON object with everything."""
    if as_json:
        links = {"links": [asdict(row) for row in linked]} if linked else {}
        costs = {"programs": [asdict(row) for row in programs]} if programs else {}
        print_json(as_data(result) | links | costs)
        return
    console = SafeConsole(highlight=False, markup=False)
    print_text(console, short_tables(result), notes(result))
    if linked:
        console.print()
        print_table(console, linked_table(linked))
    for table in programs_tables(programs) if programs else ():
        console.print()
        print_table(console, table)
    failures = [f"{row.output}, {row.policy}: {row.error}" for row in linked if row.error]
    failures += [f"{row.program}, {row.policy}: {row.error}" for row in programs if row.error]
    for error in dict.fromkeys(failures):
        console.print(error, soft_wrap=True)


def draw_result(result: EvaluationResult, path: Path, title: str) -> None:
    """Write the output of `print_result()` on a wide terminal as an SVG picture."""
    console = SafeConsole(
        highlight=False, markup=False, record=True, file=io.StringIO(), force_terminal=True, width=PICTURE_WIDTH
    )
    print_text(console, short_tables(result), notes(result))
    path.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(path), title=title)


def print_text(console: Console, tables: Sequence[Table], lines: Sequence[str]) -> None:
    """Print tables, and lines below them."""
    for table in tables:
        print_table(console, table)
    for line in lines:
        console.print(line, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    """Print a table and an empty line; a narrow terminal shows columns that do not fit below the others."""
    if not console.is_terminal:
        echo(f"{table.as_text()}\n")
        return
    console.print(table.title, soft_wrap=True)
    for columns in table.fitting_columns(console.width, _GAP):
        drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        for column in columns:
            drawn.add_column(table.columns[column], justify="right" if column else "left", no_wrap=True)
        for row in table.rows:
            drawn.add_row(*(row[column] for column in columns))
        console.print(drawn)
