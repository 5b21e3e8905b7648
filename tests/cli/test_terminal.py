"""Untrusted names do not control the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner

from mlgo_gym import cli
from mlgo_gym.cli.application import application
from mlgo_gym.cli.output import SafeConsole
from mlgo_gym.cli.terminal import escape_control_characters
from tests.corpus.untrusted import make_untrusted_corpus

CONTROL = "\x1b]52;c;cGFzdGVk\x07\x1b[2Jname\r\x9b1m\u202e"
SHOWN = "\\x1b]52;c;cGFzdGVk\\x07\\x1b[2Jname\\x0d\\x9b1m\\u202e"


def test_control_characters_are_escaped() -> None:
    assert escape_control_characters(f"a\tb\n{CONTROL}ü日") == f"a\tb\n{SHOWN}ü日"


def test_a_table_keeps_only_its_own_colours() -> None:
    file = io.StringIO()
    table = Table("[bold]module")
    table.add_row(CONTROL, style="red")
    SafeConsole(file=file, force_terminal=True, color_system="standard", width=80).print(table)
    assert "\\x1b]52;c;cGFzdGVk" in file.getvalue()
    assert "\x1b[31m" in file.getvalue()
    assert "\x1b]" not in file.getvalue()


def test_a_command_escapes_the_name_of_a_module(calls: Path, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ("-load", "x"), name=f"m{CONTROL}")
    for command in (["info", "--modules"], ["verify"]):
        shown = CliRunner().invoke(application, ["corpus", *command, str(folder)], env={"COLUMNS": "400"}).output
        assert "\x1b" not in shown
        assert "cGFzdGVk" in shown


def test_an_error_escapes_the_name_of_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["mlgo-gym", "replay", str(tmp_path / f"a{CONTROL}.recipe")])
    with pytest.raises(SystemExit):
        cli.main()
    assert SHOWN in capsys.readouterr().err


def test_deep_nesting_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nested(_: object) -> None:
        nested(_)

    monkeypatch.setattr("mlgo_gym.cli.application.application", nested)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("mlgo-gym: a folder or a file is nested too deeply for Python")
