"""Tables, progress and untrusted names on terminals."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table as RichTable

from mlgo_gym.cli import escape_control_characters
from mlgo_gym.cli.progress import SafeConsole, progress_over
from mlgo_gym.evaluation.table import Table
from tests.cli.command import run
from tests.corpus.untrusted import make_untrusted_corpus

SHEET = Table(
    "What it shows",
    ("policy", "modules", "bytes", "total"),
    (("default", "26", "398,805", "0"), ("clang:-mllvm,-inline-threshold=20", "26", "400,000", "+0.30 %")),
)

CONTROL = "\x1b]52;c;cGFzdGVk\x07\x1b[2Jname\r\x9b1m\u202e"
SHOWN = "\\x1b]52;c;cGFzdGVk\\x07\\x1b[2Jname\\x0d\\x9b1m\\u202e"


def test_a_narrow_terminal_shows_every_complete_cell_and_each_row_with_its_policy() -> None:
    for width, tables in ((100, 1), (60, 1), (55, 2), (50, 3)):
        shown = SHEET.as_text(width)
        assert [cell for row in (SHEET.columns, *SHEET.rows) for cell in row if cell not in shown] == []
        assert max(map(len, shown.splitlines())) <= width
        assert shown.count("clang:-mllvm") == tables


def test_lines_show_progress_and_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with progress_over(9, "Episodes") as advance:
        for now in (2, 5, 7, 11):
            clock[0] = now
            advance()
    with progress_over(None, "Labels") as advance:
        clock[0] += 100
        advance.at(3, 4, "Labels", "fine")
        advance.at(0, 10, "Trees")  # a new title restarts the clock
        clock[0] += 10
        advance.at(5, 10, "Trees")
    assert capsys.readouterr().err.splitlines() == [
        "Episodes: 2 of 9, 24.0/min, 0:00:18 left",
        "Episodes: 4 of 9, 21.8/min, 0:00:14 left",
        "Labels: 3 of 4, 1.8/min, 0:00:33 left; fine",
        "Trees: 5 of 10, 30.0/min, 0:00:10 left",
    ]
    with progress_over(None, "Short") as advance:
        advance()
    assert capsys.readouterr().err == ""


def test_control_characters_of_untrusted_names_are_escaped(calls: Path, tmp_path: Path) -> None:
    assert escape_control_characters(f"a\tb\n{CONTROL}ü日") == f"a\tb\n{SHOWN}ü日"
    file = io.StringIO()
    table = RichTable("[bold]module")
    table.add_row(CONTROL, style="red")
    SafeConsole(file=file, force_terminal=True, color_system="standard", width=80).print(table)
    assert "\\x1b]52;c;cGFzdGVk" in file.getvalue()
    assert "\x1b[31m" in file.getvalue()  # the table's own colour
    assert "\x1b]" not in file.getvalue()
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ("-load", "x"), name=f"m{CONTROL}")
    shown = run("corpus", "verify", folder, env={"COLUMNS": "400"}).output
    assert ("\x1b" in shown, "cGFzdGVk" in shown) == (False, True)
    program = Path(sys.executable).with_name("mlgo-gym")
    failed = subprocess.run([program, "validate", tmp_path / f"a{CONTROL}.recipe"], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr.count("\n"), SHOWN in failed.stderr) == (2, 1, True)
