"""The commands of the tutorial are commands; `benchmarks/tutorial.py` runs them, which takes longer than a test may."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mlgo_gym.cli.application import application

ROOT = Path(__file__).parent.parent
TUTORIAL: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "tutorial.py"))
COMMANDS: list[str] = TUTORIAL["commands"]((ROOT / "docs" / "tutorial.md").read_text())
OURS = [
    line.partition(" -- ")[0]
    for block in COMMANDS
    for line in re.sub(r"\\\n\s*", "", block).splitlines()
    if "mlgo-gym " in line and "pip install" not in line
]


def test_the_whole_is_a_shell_script() -> None:
    subprocess.run(["bash", "-n"], input=TUTORIAL["script"](COMMANDS).encode(), check=True)
    assert len(COMMANDS) >= 7


@pytest.mark.parametrize("line", OURS)
def test_every_option_of_ours_is_there(line: str) -> None:
    words = line.partition("mlgo-gym ")[2].split()
    command: Any = get_command(application)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
