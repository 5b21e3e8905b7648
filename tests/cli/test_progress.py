"""Progress where nobody watches a terminal."""

from __future__ import annotations

import pytest

from mlgo_gym.cli import progress


def test_lines_come_now_and_then_and_say_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 2.0, 5.0, 7.0, 11.0])
    monkeypatch.setattr("mlgo_gym.cli.progress.time.monotonic", lambda: next(clock))
    with progress.progress_over(9, "Episodes") as advance:
        for _ in range(4):
            advance()
    assert capsys.readouterr().err.splitlines() == ["Episodes: 2 of 9", "Episodes: 4 of 9"]


def test_what_is_over_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_over(None, "Modules") as advance:
        advance()
    assert capsys.readouterr().err == ""
