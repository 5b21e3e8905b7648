"""Promises that every command keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli.application import application

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
ROOT = Path(__file__).parents[2]

WITHOUT_JSON = {
    "corpus catalogue": "writes pages of the documentation",
    "corpus prepare": "builds, and is done",
    "corpus record": "standard output is the build's; `corpus info --json` has what was recorded",
    "docs": "writes pages of the documentation",
}


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    group = group or typer.main.get_command(application)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


EVERY = dict(commands())


@pytest.mark.parametrize("name", EVERY)
def test_a_command_has_json_or_a_reason(name: str) -> None:
    options = {option for parameter in EVERY[name].params for option in parameter.opts}
    assert ("--json" in options) != (name in WITHOUT_JSON)


@pytest.mark.parametrize("name", EVERY)
def test_a_command_says_what_it_does_and_every_option_what_it_means(name: str) -> None:
    command = EVERY[name]
    assert command.help
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


def test_the_page_about_terminals_says_which_commands_have_no_json() -> None:
    page = (ROOT / "docs" / "reference" / "terminal.md").read_text()
    assert [name for name in WITHOUT_JSON if f"`{name}`" not in page] == []


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zsh", "fish"))])
def test_completion_prints_a_script(shell: str) -> None:
    asked = {**os.environ, "_MLGO_GYM_COMPLETE": f"source_{shell}"}
    answer = subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True, env=asked)
    assert "_MLGO_GYM_COMPLETE" in answer.stdout
    assert "mlgo-gym" in answer.stdout


def test_completion_completes_commands() -> None:
    asked = {**os.environ, "_MLGO_GYM_COMPLETE": "complete_bash", "COMP_WORDS": "mlgo-gym imp", "COMP_CWORD": "1"}
    answer = subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True, env=asked)
    assert answer.stdout.split() == ["importance"]


def test_the_environments_are_listed_and_have_cards() -> None:
    listed = json.loads(CliRunner().invoke(application, ["env", "--json"]).stdout)
    assert {each["id"] for each in listed} >= set(mlgo_gym.ENVIRONMENTS)
    for each in listed:
        text = CliRunner().invoke(application, ["env", each["id"]]).stdout
        assert each["summary"][:40] in text
        assert max(map(len, text.splitlines())) <= 80
        card = json.loads(CliRunner().invoke(application, ["env", each["id"], "--json"]).stdout)
        assert all(feature["meaning"] and feature["source"] for feature in card["features"])
        assert {argument["name"] for argument in card["arguments"]} >= {"corpus", "reward", "render_mode"}
        assert "human" in card["render_modes"]


def test_an_unknown_environment_has_neighbours() -> None:
    result = CliRunner().invoke(application, ["env", "mlgo/Inlin-v0"])
    assert "did you mean mlgo/Inline-v0" in str(result.exception)
