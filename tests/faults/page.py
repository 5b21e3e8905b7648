"""Writes the table of docs/explanation/faults.md from the catalogue: `python -m tests.faults.page`."""

import re
from pathlib import Path

from tests.faults.catalogue import ENDS, FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"

_WHERE = {"reset": "`reset()` raises", "step": "terminated", ENDS: "ends as usual"}


def render() -> str:
    """Return the page with the table of the catalogue; faults of equal outcome share a row."""
    text = PAGE.read_text(encoding="utf-8")
    match = re.search(r"(\| fault \| where .*\n\|[-|]+\n)(?:\|.*\n)*", text)
    assert match is not None
    titles: dict[tuple[str, ...], list[str]] = {}
    for fault in FAULTS:
        titles.setdefault(_cells(fault), []).append(fault.title)
    rows = [f"| {'; '.join(_shortened(faults))} | {' | '.join(cells)} |\n" for cells, faults in titles.items()]
    return text[: match.end(1)] + "".join(rows) + text[match.end() :]


def _shortened(titles: list[str]) -> list[str]:
    """Return titles without the subject that they share with the first one."""
    subject = " ".join(titles[0].split()[:3]) + " "
    return [titles[0], *(title.removeprefix(subject) for title in titles[1:])]


def _cells(fault: Fault) -> tuple[str, ...]:
    outcome = fault.outcome
    kind = f"`{outcome.kind}`" if outcome.kind else ("" if outcome.where == ENDS else f"`{outcome.error}`")
    driver = "-" if fault.driver is None else fault.driver or "ends as usual"
    where = "truncated" if (outcome.where, outcome.kind) == ("step", "timeout") else _WHERE[outcome.where]
    cells = (where, kind, outcome.message, driver)
    return tuple(cell.replace("|", chr(92) + "|").replace("<", "&lt;") for cell in cells)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
