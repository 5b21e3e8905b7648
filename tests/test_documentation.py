"""What the pages show runs, and what they link to is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reference_table import tables

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[str]:
    """The Python code of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


README = blocks(ROOT / "README.md")


def test_the_first_thing_to_read_is_code_of_a_dozen_lines_that_closes_what_it_opens() -> None:
    lines = [line for line in README[0].splitlines() if line]
    assert len(lines) <= 12
    assert lines[-1] == "env.close()"


@pytest.mark.parametrize("number", range(len(README)))
def test_the_code_of_the_readme_runs_without_a_network(number: int, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", README[number]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "builtin" in README[number]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_code(page: Path) -> None:
    for block in blocks(page):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (heading and heading not in headings(linked)):
            broken.append(target)
    assert broken == []


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_a_page_has_text_and_results_lie_apart() -> None:
    strangers = [path.name for path in (ROOT / "docs").iterdir() if path.is_file() and path.suffix != ".md"]
    assert strangers == []


def test_the_tables_of_the_benchmark_are_those_of_its_results() -> None:
    results = json.loads((ROOT / "docs" / "results" / "benchmark.json").read_text())
    page = (ROOT / "docs" / "benchmark.md").read_text()
    assert page.partition("<!-- table: begin -->\n")[2].partition("<!-- table: end -->")[0] == tables(results)
