"""The code on the pages runs, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import numbers, values
from docs.site.results_tables import card_facts

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[str]:
    """The Python code of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


README_TEXT = (ROOT / "README.md").read_text()
README = blocks(ROOT / "README.md")


def test_the_first_thing_to_read_is_code_of_a_dozen_lines_that_closes_what_it_opens() -> None:
    lines = [line for line in README[0].splitlines() if line]
    assert len(lines) <= 12
    assert lines[-1] == "env.close()"


@pytest.mark.parametrize("number", range(len(README)))
def test_the_code_of_the_readme_runs_without_a_network_and_prints_its_line(number: int, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", README[number]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "builtin" in README[number]
    if number == 0:
        assert re.findall(r"^It prints `(.*)`\.$", README_TEXT, re.MULTILINE) == result.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_code(page: Path) -> None:
    for block in blocks(page):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_starts_with_a_measurement_since_that_ends_the_paragraph(page: Path) -> None:
    assert [line for line in page.read_text().splitlines() if line.startswith("<!--=")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (heading and linked.suffix == ".md" and heading not in headings(linked)):
            broken.append(target)
    assert broken == []


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_a_page_has_text_and_results_lie_apart() -> None:
    strangers = [path.name for path in (ROOT / "docs").iterdir() if path.is_file() and path.suffix != ".md"]
    assert strangers == []


@pytest.mark.parametrize("page", numbers.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_figures_of_a_page_are_those_of_the_results(page: Path) -> None:
    assert numbers.outdated(page.read_text()) == [], "run `make numbers`"


@pytest.mark.parametrize(
    "page",
    [page for page in numbers.pages() if page.parent in (values.RESULTS, values.NETWORKS)],
    ids=lambda page: page.stem,
)
def test_every_figure_of_the_results_has_a_marker(page: Path) -> None:
    assert numbers.uncovered(page.read_text()) == []


def test_an_outdated_figure_and_an_unknown_name_are_found() -> None:
    page = "one\n<!--= benchmark.oz.inline-oz.modules -->7<!--=--> and <!--= benchmark.oz.nothing -->7<!--=-->\n"
    outdated, unknown = numbers.outdated(page)
    assert outdated == "2: benchmark.oz.inline-oz.modules: expected '181', got '7'"
    assert unknown.startswith("2: expected a path, got 'benchmark.oz.nothing'")


def test_a_figure_without_a_marker_is_found() -> None:
    page = "It takes 3.5 ms, `4 ms` in code, <!--= soak.minutes -->60 minutes<!--=--> or +2 %.\n"
    assert numbers.uncovered(page) == ["1: 3.5 ms", "1: +2 %"]


def test_writing_fills_in_markers_and_tables() -> None:
    table = "<!-- table: benchmark.oz.policies -->\n<!-- table: end -->\n"
    page = f"<!--= benchmark.oz.inline-oz.modules -->?<!--=-->\n{table}"
    written = numbers.updated(page)
    assert "-->181<!--" in written
    assert "| `inline-oz` | " in written
    assert numbers.outdated(written) == []


@pytest.mark.parametrize("figure", sorted((ROOT / "docs" / "images").glob("*-light.svg")), ids=lambda path: path.stem)
def test_a_figure_has_a_light_and_a_dark_variant_with_the_same_text(figure: Path) -> None:
    pair = [path.read_text() for path in (figure, figure.with_name(figure.name.replace("-light", "-dark")))]
    first, second = (re.findall(r"<text[^>]*>([^<]+)", each) for each in pair)
    assert first == second != []
    assert max(map(len, pair)) < 60_000


@pytest.mark.parametrize("card", sorted(values.NETWORKS.glob("*.json")), ids=lambda path: path.stem)
def test_a_card_has_the_results_of_the_benchmark(card: Path) -> None:
    written, found = values.read(card)["test"], card_facts(card.stem)
    assert written.keys() == found.keys()
    for key in ("geometric_mean", "total", "better", "worse", "equal"):
        assert written[key] == pytest.approx(found[key]), "run python -m benchmarks.model_card NAME --results"
