"""The commands of the tutorial exist and are a shell script; `benchmarks/tutorial.py` runs them."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from typer.main import get_command

from benchmarks import tutorial
from mlgo_gym.cli.application import application

COMMANDS = tutorial.commands(tutorial.TUTORIAL.read_text())
OURS = [
    line.partition(" -- ")[0]
    for block in COMMANDS
    for line in re.sub(r"\\\n\s*", "", block).splitlines()
    if "mlgo-gym " in line and "pip install" not in line
]


def test_the_commands_are_a_shell_script() -> None:
    subprocess.run(["bash", "-n"], input=tutorial.script(COMMANDS).encode(), check=True)
    assert len(COMMANDS) >= 6


def test_the_section_of_the_plugin_can_be_skipped() -> None:
    assert sum("-fpass-plugin" in block for block in COMMANDS) == 1
    without = tutorial.commands(tutorial.TUTORIAL.read_text(), plugin=False)
    assert without == [block for block in COMMANDS if "-fpass-plugin" not in block]


def test_cpu_seconds_are_those_of_shell_and_children() -> None:
    before = "0m1.0s 0m0.5s\n0m2.0s 0m0.0s\n"
    after = "0m1.0s 0m0.5s\n1m4.0s 0m0.5s\n"
    assert tutorial.seconds(before + after) == [62.5]


@pytest.mark.parametrize("line", OURS)
def test_every_option_exists(line: str) -> None:
    words = line.partition("mlgo-gym ")[2].split()
    command: Any = get_command(application)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
