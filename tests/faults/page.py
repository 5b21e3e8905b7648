"""Writes the tables of docs/explanation/faults.md from the catalogue: `python -m tests.faults.page`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.catalogue import ENDS, FAULTS, HOST_FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"

_WHERE = {"reset": "`reset()` raises", "step": "truncated", ENDS: "ends as usual"}


def render() -> str:
    """Return the page with the tables of the catalogue."""
    host_faults = [f"| {fault.title} | {_plain(fault.effect)} |" for fault in HOST_FAULTS]
    text = PAGE.read_text(encoding="utf-8")
    for column, lines in (("where", map(_line, FAULTS)), ("effect", host_faults)):
        match = re.search(rf"(\| fault \| {column} .*\n\|[-|]+\n)(?:\|.*\n)*", text)
        assert match is not None
        text = text[: match.start()] + match[1] + "".join(f"{line}\n" for line in lines) + text[match.end() :]
    return text


def _line(fault: Fault) -> str:
    outcome = fault.outcome
    kind = f"`{outcome.kind}`" if outcome.kind else ("" if outcome.where == ENDS else f"`{outcome.error}`")
    stderr = f"{outcome.message}; {outcome.stderr}" if outcome.stderr else outcome.message
    driver = "-" if fault.driver is None else fault.driver or "ends as usual"
    return f"| {fault.title} | {_WHERE[outcome.where]} | {kind} | {_plain(stderr)} | {_plain(driver)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
