"""Writes the table of docs/explanation/faults.md from the catalogue: `python -m tests.faults.page`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.catalogue import ENDS, FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"

_WHERE = {"reset": "`reset()` raises", "step": "truncated", ENDS: "ends as usual"}


def render() -> str:
    """Return the page with the table of the catalogue."""
    text = PAGE.read_text(encoding="utf-8")
    match = re.search(r"(\| fault \| where .*\n\|[-|]+\n)(?:\|.*\n)*", text)
    assert match is not None
    return text[: match.end(1)] + "".join(map(_line, FAULTS)) + text[match.end() :]


def _line(fault: Fault) -> str:
    outcome = fault.outcome
    kind = f"`{outcome.kind}`" if outcome.kind else ("" if outcome.where == ENDS else f"`{outcome.error}`")
    stderr = f"{outcome.message}; {outcome.stderr}" if outcome.stderr else outcome.message
    driver = "-" if fault.driver is None else fault.driver or "ends as usual"
    cells = (fault.title, _WHERE[outcome.where], kind, stderr, driver)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
