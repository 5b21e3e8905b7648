"""Tables on standard output: with lines and colours on a terminal, aligned text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from mlgo_gym.cli.output import SafeConsole, echo, show
from mlgo_gym.evaluation.linking import LinkResult, linked_table
from mlgo_gym.evaluation.programs import ProgramResult, programs_tables
from mlgo_gym.evaluation.report import as_data, notes, short_tables
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.table import Table

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
        parts = {"links": list(map(asdict, linked)), "programs": list(map(asdict, programs))}
        show(True, as_data(result) | {name: rows for name, rows in parts.items() if rows}, "")
        return
    print_tables(short_tables(result), notes(result))
    for table in [*([linked_table(linked)] if linked else []), *(programs_tables(programs) if programs else [])]:
        echo("")
        print_tables([table])
    failures = [f"{row.output}, {row.policy}: {row.error}" for row in linked if row.error]
    failures += [f"{row.program}, {row.policy}: {row.error}" for row in programs if row.error]
    print_tables([], list(dict.fromkeys(failures)))


def print_tables(tables: Sequence[Table], lines: Sequence[str] = (), console: Console | None = None) -> None:
    """Print tables with an empty line each, and lines below; a narrow terminal shows columns below each other."""
    console = console or SafeConsole(highlight=False, markup=False)
    for table in tables:
        if not console.is_terminal:
            echo(f"{table.as_text()}\n")
            continue
        console.print(table.title, soft_wrap=True)
        for columns in table.fitting_columns(console.width, _GAP):
            drawn = RichTable(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
            for column in columns:
                drawn.add_column(table.columns[column], justify="right" if column else "left", no_wrap=True)
            for row in table.rows:
                drawn.add_row(*(row[column] for column in columns))
            console.print(drawn)
    for line in lines:
        console.print(line, soft_wrap=True)
