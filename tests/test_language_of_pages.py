"""The language, the first line, the place and the length of the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.pages import pages_of_docs
from docs.site import numbers
from tests.test_language import BANNED, LONGEST, STARTS, sentences

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = (DOCS / "reference" / "environments", DOCS / "reference" / "python")
MAX_LINES = 2450
"""Lines of all pages in docs/ that are written by hand; the page of the datasets is not."""


def handwritten() -> list[Path]:
    return [path for path in pages_of_docs() if not any(folder in path.parents for folder in GENERATED)]


def pages() -> list[Path]:
    return [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *numbers.pages()]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_of(page: str) -> str:
    """Return a page without code, comments, tables, link targets and HTML; headings and table rows end a paragraph."""
    page = re.sub(r"^( *)```.*?^\1```", "\n", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    page = re.sub(r"(?:(?<=\n\n)|\A)(?: {4,}\S.*\n?)+", "\n", page)
    page = re.sub(r"^[|#<].*$", "\n", page, flags=re.MULTILINE)
    page = re.sub(r"`[^`]*`(?:, `[^`]*`)*", "code", page)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    return re.sub(r"^ *(?:[-*]|\d+\.) ", "\n\n", page, flags=re.MULTILINE)


def problems(page: str) -> Iterator[str]:
    """Yield what is wrong with the language of a page."""
    without_code = re.sub(r"^( *)```.*?^\1```|`[^`\n]*`|\]\([^)]*\)", "", page, flags=re.MULTILINE | re.DOTALL)
    for reason, pattern in BANNED.items():
        yield from (f"{reason}: {found[0]!r}" for found in re.finditer(pattern, without_code))
    prose = prose_of(page)
    for paragraph in re.split(r"\n\s*\n", prose):
        if found := STARTS.search(" ".join(paragraph.split())):
            yield f"a clause as the subject: {found[0][:60]!r}"
    for sentence in sentences(prose):
        if len(words := sentence.split()) > LONGEST:
            yield f"{len(words)} words in a sentence: {' '.join(words[:8])} …"


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_the_language_of_a_page_follows_the_rules(path: Path) -> None:
    assert list(problems(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", handwritten(), ids=name_of)
def test_the_first_line_of_a_page_says_for_whom_it_is(path: Path) -> None:
    page = re.sub(r"<!--.*?-->\n*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    title, _, rest = page.lstrip().partition("\n")
    assert title.startswith("# ")
    assert re.match(r"\s*For [^\n.]+: ", rest)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    linked = set(re.findall(r"(\S+\.md)$", navigation, re.MULTILINE))
    assert [name_of(path) for path in pages_of_docs() if str(path.relative_to(DOCS)) not in linked] == []


def test_the_archive_lists_its_pages() -> None:
    archive = DOCS / "archive"
    index = (archive / "index.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(archive.glob("*.md")) if f"({path.name})" not in index] == ["index.md"]


def test_the_pages_are_short() -> None:
    counted = [path for path in handwritten() if path != DOCS / "reference" / "datasets.md"]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in counted) <= MAX_LINES


@pytest.mark.parametrize(
    "page",
    [
        "# Title\n\nWhat the compiler cuts off counts.\n",
        "- What the compiler cuts off counts.\n",
        "| the call |\n|---|\n| it was foretold |\n",
        f"A sentence.\n{'word ' * 36}.\n",
    ],
)
def test_a_violation_is_found(page: str) -> None:
    assert list(problems(page))


def test_code_tables_and_links_are_no_sentences() -> None:
    words = "word " * 36
    assert list(problems(f"# Title\n\n    {words}\n\n```\n{words}\n```\n\n| {words} |\n\n[link]({words})\n")) == []
