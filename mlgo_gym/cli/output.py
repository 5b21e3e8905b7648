"""How a command ends: with text for people, or with `--json` one JSON value for programs, and with a status."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mlgo_gym.cli.visible import visible

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

FAILED = 1
"""The exit status where something that was asked for failed; what that is, the help of each command says."""


class NamingConsole(Console):
    """A console on which what is printed steers nothing, whatever names are in it; colours and lines are Rich's own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is to be printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def say(text: object, *, err: bool = False) -> None:
    """Print a text, in which there may be names, on standard output or on standard error."""
    typer.echo(visible(str(text)), err=err)


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
        say(text)


def print_json(data: Any) -> None:
    """Print one JSON value on standard output; paths are written as they are."""
    typer.echo(json.dumps(data, indent=2, default=str))
