"""Tables on terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mlgo_gym.cli.tables import print_table
from mlgo_gym.evaluation.table import Table, fitting_columns

SHEET = Table(
    "What it shows",
    ("policy", "modules", "bytes", "total"),
    (("default", "26", "398,805", "0"), ("clang:-mllvm,-inline-threshold=20", "26", "400,000", "+0.30 %")),
)


def test_a_wide_terminal_shows_one_table() -> None:
    assert fitting_columns(SHEET, 100, 3) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("width", [50, 60, 70, 80])
def test_a_narrow_terminal_shows_every_complete_cell_and_each_row_with_its_policy(width: int) -> None:
    file = io.StringIO()
    print_table(Console(file=file, width=width, force_terminal=True, color_system=None), SHEET)
    shown = file.getvalue()
    for cell in (*SHEET.columns, *(cell for row in SHEET.rows for cell in row)):
        assert cell in shown
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("clang:-mllvm") == len(fitting_columns(SHEET, width, 3))


def test_a_terminal_too_narrow_for_anything_still_shows_each_column_once() -> None:
    assert fitting_columns(SHEET, 1, 3) == [[0, 1], [0, 2], [0, 3]]
