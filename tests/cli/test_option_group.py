"""Options that several commands have in common reach each as one argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from mlgo_gym.cli.option_group import with_options


@dataclass(frozen=True)
class Colour:
    """Two options."""

    red: Annotated[int, typer.Option(help="How red.")] = 1
    names: Annotated[list[str] | None, typer.Option(help="What it is called.")] = None


application = typer.Typer()


@application.command()
@with_options("colour", Colour)
def paint(
    what: Annotated[str, typer.Argument(help="What to paint.")], *, coats: int = 2, colour: Colour, dry: bool = False
) -> None:
    """Paint something."""
    typer.echo(f"{what} {coats} {colour} {dry}")


def test_the_fields_are_options_with_their_defaults() -> None:
    assert CliRunner().invoke(application, ["wall"]).output == "wall 2 Colour(red=1, names=None) False\n"


def test_what_is_given_reaches_the_group_and_the_command() -> None:
    given = ["wall", "--red", "7", "--names", "a", "--names", "b", "--coats", "3", "--dry"]
    assert CliRunner().invoke(application, given).output == "wall 3 Colour(red=7, names=['a', 'b']) True\n"


def test_the_help_has_them_in_their_place() -> None:
    output = CliRunner().invoke(application, ["--help"]).output
    assert "Paint something." in output
    assert output.index("--coats") < output.index("--red") < output.index("--names") < output.index("--dry")
    assert "--colour" not in output
