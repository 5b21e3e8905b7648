"""Output of commands: text, or with `--json` one JSON value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import typer

from mlgo_gym.cli.terminal import escape_control_characters

FAILED = 1
"""Exit status after a failure; the help of each command says which."""


def echo(text: object, *, err: bool = False) -> None:
    """Print a text on standard output or standard error, with control characters escaped."""
    typer.echo(escape_control_characters(str(text)), err=err)


def show(as_json: bool, data: Any, text: str) -> None:
    """Print a result on standard output: with `--json` the data as one value, else the text unless it is empty."""
    if as_json:
        typer.echo(json.dumps(data, indent=2, default=str))
    elif text:
        echo(text)


def exit_with(failed: object) -> NoReturn:
    """End the command with the exit status `FAILED` if something failed, else 0."""
    raise typer.Exit(FAILED if failed else 0)


def aligned(rows: Iterable[Sequence[object]]) -> str:
    """Return rows of equal length as lines of aligned columns; numbers are on the right of their columns."""
    table = [list(row) for row in rows]
    texts = [[f"{cell:,}" if isinstance(cell, (int, float)) else str(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for cells, row in zip(table, texts, strict=True):
        sides = (">" if isinstance(cell, (int, float)) else "<" for cell in cells)
        columns = zip(row, sides, widths, strict=True)
        lines.append("  ".join(f"{text:{side}{width}}" for text, side, width in columns).rstrip())
    return "\n".join(lines)
