"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from mlgo_gym.cli import progress
from mlgo_gym.cli.output import SafeConsole
from mlgo_gym.cli.progress import RunningChanges


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time; a test sets it."""
    now = [0.0]
    monkeypatch.setattr("mlgo_gym.cli.progress.time.monotonic", lambda: now[0])
    return now


def test_lines_every_few_seconds_show_the_progress(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_over(9, "Episodes") as advance:
        for now in (2, 5, 7, 11):
            clock[0] = now
            advance()
    assert capsys.readouterr().err.splitlines() == [
        "Episodes: 2 of 9, 24.0/min, 0:00:18 left",
        "Episodes: 4 of 9, 21.8/min, 0:00:14 left",
    ]


def test_a_line_shows_the_result_so_far(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_over(None, "Modules") as advance:
        advance("-1.00%")
        clock[0] = 6
        advance()
    assert capsys.readouterr().err == "Modules: 2, 20.0/min; -1.00%\n"


def test_a_new_title_restarts_the_clock(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_over(None, "Labels") as advance:
        clock[0] = 100
        advance.at(3, 4, "Labels", "fine")
        advance.at(0, 10, "Trees")
        clock[0] = 110
        advance.at(5, 10, "Trees")
    assert capsys.readouterr().err.splitlines() == [
        "Labels: 3 of 4, 1.8/min, 0:00:33 left; fine",
        "Trees: 5 of 10, 30.0/min, 0:00:10 left",
    ]


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_over(None, "Modules") as advance:
        advance()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar_and_pipes_stay_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = io.StringIO()
    terminal = SafeConsole(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "SafeConsole", lambda stderr: terminal)
    with progress.progress_over(4, "[Episodes]") as advance:
        advance("[x] -7.80%")
        sys.stdout.write("a row\n")
    assert "[Episodes]" in screen.getvalue()
    assert "1 of 4" in screen.getvalue()
    assert "[x] -7.80%" in screen.getvalue()
    assert "a row" not in screen.getvalue()
    assert capsys.readouterr().out == "a row\n"


def test_running_changes_are_geometric_means() -> None:
    running = RunningChanges()
    assert running.add("", 99, 199) == "-50.00%"
    for name in ("a", "b", "c"):
        running.add(name, 199, 99)
    assert str(running) == "-50.00%, a +100.00%, b +100.00%, …"
