"""The command line as a whole, and promises that every command keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import mlgo_gym
from mlgo_gym.cli.application import application
from mlgo_gym.errors import MlgoError
from tests.cli.command import run, run_json

PROGRAM = Path(sys.executable).with_name("mlgo-gym")

WITHOUT_JSON = {"corpus catalogue", "corpus prepare", "corpus record", "demo", "docs"}
"""Commands that write files or whose standard output is that of a build."""


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    group = group or typer.main.get_command(application)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, env=environment)


def test_every_command_has_json_and_a_help_text_for_itself_and_its_options() -> None:
    listed = run("--help").stdout
    assert all(f" {command} " in listed for command in ("corpus", "doctor", "evaluate", "report"))
    for name, command in commands():
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--json" in options) != (name in WITHOUT_JSON), name
        assert command.help, name
        assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == [], name


def test_the_program_prints_its_version_and_an_error_as_one_line() -> None:
    assert run("--version").stdout == f"mlgo-gym {mlgo_gym.__version__}\n"
    failed = start("evaluate", "mlgo/Inline-v0", "--policy", "nver")
    assert failed.returncode == 2
    assert failed.stderr.startswith("mlgo-gym: there is no policy 'nver'; did you mean never")
    assert failed.stderr.count("\n") == 1


def test_a_shell_completes_commands() -> None:
    completed = start(_MLGO_GYM_COMPLETE="complete_bash", COMP_WORDS="mlgo-gym imp", COMP_CWORD="1").stdout
    assert completed.split() == ["importance"]


def test_the_environments_are_listed_and_have_cards() -> None:
    listed = run_json("env")
    assert {entry["id"] for entry in listed} >= set(mlgo_gym.ENVIRONMENTS)
    for entry in listed:
        if entry["id"] in mlgo_gym.APPROXIMATIONS:
            with pytest.raises(MlgoError, match=r"expected an environment with a compiler, .*bandit\.InlineBanditEnv`"):
                run("env", entry["id"])
            continue
        text = run("env", entry["id"]).stdout
        assert entry["summary"][:40] in text
        assert max(map(len, text.splitlines())) <= 80
        card = run_json("env", entry["id"])
        assert all(feature["meaning"] and feature["source"] for feature in card["features"])
        assert {argument["name"] for argument in card["arguments"]} >= {"corpus", "reward", "render_mode"}
        assert "human" in card["render_modes"]
    with pytest.raises(MlgoError, match="did you mean mlgo/Inline-v0"):
        run("env", "mlgo/Inlin-v0")
