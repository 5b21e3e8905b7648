"""How a command ends: with text for people, or with `--json` one JSON value for programs, and with a status."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

FAILED = 1
"""The exit status where something that was asked for failed; what that is, the help of each command says."""


def show(as_json: bool, data: Any, text: str) -> None:
    """Print a result on standard output.

    Args:
        as_json: whether `--json` was given.
        data: the result, of JSON values; paths are written as they are.
        text: the result for a person; nothing is printed where it is empty.
    """
    if as_json:
        print_json(data)
    elif text:
        typer.echo(text)


def print_json(data: Any) -> None:
    """Print one JSON value on standard output; paths are written as they are."""
    typer.echo(json.dumps(data, indent=2, default=str))
