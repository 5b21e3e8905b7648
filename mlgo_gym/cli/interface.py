"""Results of commands: text, or one value with `--json`."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from mlgo_gym.cli.terminal import escape_control_characters

FAILED = 1
"""Exit status after a failure; the help of each command says which."""


def echo(text: object, *, err: bool = False) -> None:
    """Print a text on standard output or standard error, with control characters escaped."""
    typer.echo(escape_control_characters(str(text)), err=err)


def print_result(as_json: bool, data: Any, text: str, failed: object = None) -> None:
    """Print a result on standard output: with `--json` the data as one value, else the text unless it is empty.

    The command ends with the exit status 1 if something failed.
    """
    if as_json:
        typer.echo(json.dumps(data, indent=2, default=str))
    elif text:
        echo(text)
    exit_with(failed)


def exit_with(failed: object) -> None:
    """End the command with the exit status `FAILED` if something failed."""
    if failed:
        raise typer.Exit(FAILED)


def aligned(rows: Iterable[Sequence[object]]) -> str:
    """Return rows of equal length as lines of aligned columns; numbers are on the right of their columns."""
    table = [
        [(f"{cell:,}", ">") if isinstance(cell, (int, float)) else (str(cell), "<") for cell in row] for row in rows
    ]
    widths = [max(len(text) for text, _ in column) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(f"{text:{side}{width}}" for (text, side), width in zip(row, widths, strict=True)) for row in table
    )
    return "\n".join(map(str.rstrip, lines))
