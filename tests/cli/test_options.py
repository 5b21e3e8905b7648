"""Options that several commands share, and the settings that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.cli.options import CompilerOptions, ExecutionOptions, fill_ray_value, parse_settings, with_options
from mlgo_gym.errors import MissingExtraError, MlgoError


def test_options_that_are_not_given_are_no_arguments() -> None:
    assert CompilerOptions().arguments() == {}


def test_options_are_arguments_of_an_environment() -> None:
    options = CompilerOptions(
        "clang-22", 2.5, float("inf"), ["observation=dict", "compile_options.cpu_limit=7"], trust_flags=True
    )
    assert options.arguments() == {
        "clang": "clang-22",
        "observation": "dict",
        "compile_options": {"trust_flags": True, "memory_limit": 2.5, "cpu_limit": 7},
    }


def test_no_limit_is_written_as_json_can() -> None:
    assert CompilerOptions(memory_limit=float("inf")).arguments() == {"compile_options": {"memory_limit": None}}


def test_settings_are_json_or_else_strings() -> None:
    texts = ["a=1", "b=[1, 2]", "c=null", "d=dict", 'e="1"', "f=x=y"]
    assert parse_settings(texts) == {"a": 1, "b": [1, 2], "c": None, "d": "dict", "e": "1", "f": "x=y"}


@pytest.mark.parametrize("text", ["", "a", "=1", "a b=1", "options.a=1"])
def test_settings_without_a_name_are_refused(text: str) -> None:
    with pytest.raises(MlgoError, match="expected --set NAME=VALUE"):
        parse_settings([text])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["evaluate", "--ray"], ["evaluate", "--ray="]),
        (["evaluate", "--ray", "--jobs", "2"], ["evaluate", "--ray=", "--jobs", "2"]),
        (["evaluate", "--ray", "mlgo/Inline-v0"], ["evaluate", "--ray=", "mlgo/Inline-v0"]),
        (["evaluate", "--ray", "10.0.0.1:6379"], ["evaluate", "--ray", "10.0.0.1:6379"]),
        (["evaluate", "--ray", "[::1]:6379"], ["evaluate", "--ray", "[::1]:6379"]),
        (["evaluate", "--ray", "ray://head:10001"], ["evaluate", "--ray", "ray://head:10001"]),
        (["evaluate", "--ray", "auto"], ["evaluate", "--ray", "auto"]),
        (["evaluate", "--ray=auto", "--jobs", "2"], ["evaluate", "--ray=auto", "--jobs", "2"]),
    ],
)
def test_a_value_is_filled_in_where_no_address_follows(words: list[str], wanted: list[str]) -> None:
    assert fill_ray_value(words) == wanted


def test_the_environment_names_the_cluster_where_the_option_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert [ExecutionOptions(ray=given).execution().ray for given in (None, "", "auto")] == [
        None,
        "10.0.0.1:6379",
        "auto",
    ]
    monkeypatch.delenv("RAY_ADDRESS")
    assert ExecutionOptions(ray="").execution().ray == "local"


def test_without_ray_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    result = CliRunner().invoke(application, ["evaluate", "mlgo/Inline-v0", "--limit", "1", "--ray="])
    assert isinstance(result.exception, MissingExtraError)
    assert "pip install 'mlgo-gym[ray]'" in str(result.exception)


@dataclass(frozen=True)
class Colour:
    """Two options."""

    red: Annotated[int, typer.Option(help="How red.")] = 1
    names: Annotated[list[str] | None, typer.Option(help="Its names.")] = None


painter = typer.Typer()


@painter.command()
@with_options("colour", Colour)
def paint(
    what: Annotated[str, typer.Argument(help="What to paint.")], *, coats: int = 2, colour: Colour, dry: bool = False
) -> None:
    """Paint something."""
    typer.echo(f"{what} {coats} {colour} {dry}")


def test_the_fields_are_options_with_their_defaults() -> None:
    assert CliRunner().invoke(painter, ["wall"]).output == "wall 2 Colour(red=1, names=None) False\n"


def test_given_values_reach_the_group_and_the_command() -> None:
    given = ["wall", "--red", "7", "--names", "a", "--names", "b", "--coats", "3", "--dry"]
    assert CliRunner().invoke(painter, given).output == "wall 3 Colour(red=7, names=['a', 'b']) True\n"


def test_the_help_has_them_in_their_place() -> None:
    output = CliRunner().invoke(painter, ["--help"]).output
    assert "Paint something." in output
    assert output.index("--coats") < output.index("--red") < output.index("--names") < output.index("--dry")
    assert "--colour" not in output
