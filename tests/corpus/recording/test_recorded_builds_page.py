"""The table of recorded builds in docs/archive/corpora.md matches the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def row(name: str, build: dict[str, Any]) -> str:
    """Return the line of a project in the table."""
    skipped = ", ".join(f"{number} of {reason}" for reason, number in build["skipped"].items()) or "nothing"
    equal = build["verdicts"].get("equal", 0)
    links = f"{build['linked_again']} of {build['links']}"
    cells = (f"{name} {build['version']}", build["system"], f"{equal} of {build['modules']}", links, skipped)
    return f"| {' | '.join(cells)} |"


def test_the_table_of_recorded_builds_is_that_of_the_results() -> None:
    results = json.loads((ROOT / "docs/results/recorded_builds.json").read_text())["builds"]
    page = (ROOT / "docs/archive/corpora.md").read_text()
    assert [name for name, build in results.items() if row(name, build) not in page] == []
