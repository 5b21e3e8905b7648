"""What a command prints in the end: text for people, or with `--json` one JSON value for programs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def show(as_json: bool, data: Any, text: str) -> None:
    """Print a result on standard output.

    Args:
        as_json: whether `--json` was given.
        data: the result, of JSON values; paths are written as they are.
        text: the result for a person; nothing is printed where it is empty.
    """
    if as_json:
        typer.echo(json.dumps(data, indent=2, default=str))
    elif text:
        typer.echo(text)
