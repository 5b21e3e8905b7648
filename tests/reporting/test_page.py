"""The report as a page, as figures, and as tables for papers."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.reporting import plots
from mlgo_gym.reporting.page import command_of
from mlgo_gym.reporting.paper import as_latex, as_markdown
from tests.reporting.runs import configuration, keep, made_up
from tests.reporting.test_curves import search_file

RUN = made_up({"default": {}, "<my_rule> & co": {"a": 50, "b": 260, "d": 399}, "threshold:5": {"c": 1}})
VOID = {"meta", "link", "br", "path", "use", "img"}


class Page(HTMLParser):
    """Collects what a page refers to and shows, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID or tag == "use":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two evaluations and a search, as page and figures."""
    folder = tmp_path_factory.mktemp("report")
    other = made_up({"threshold:5": {"c": 250}})
    runs = [keep(RUN, folder / "one"), keep(other, folder / "two"), search_file(folder / "greedy.jsonl")]
    words = ["report", *map(str, runs), "--html", str(folder / "page.html"), "--figures", str(folder / "figures")]
    answer = CliRunner().invoke(application, words)
    assert answer.exit_code == 0, answer.output
    assert "== one ==" in answer.stdout
    return folder


def test_the_page_is_whole_in_itself(folder: Path) -> None:
    text = (folder / "page.html").read_text()
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_the_page_has_points_policies_and_the_command_that_reproduces_it(folder: Path) -> None:
    text = (folder / "page.html").read_text()
    assert "<title>a (C): 100 → 50, -49.50 %</title>" in text
    assert "&lt;my_rule&gt; &amp; co" in text
    assert "<my_rule>" not in text
    assert "mlgo-gym evaluate mlgo/Inline-v0 --corpus folder" in text
    assert "From one to two" in text
    assert "greedy (2 modules)" in text
    for word in ("Rust", "Where threshold:5 wins most", "Agarwal", "abc"):
        assert word in text


def test_every_figure_lies_beside_the_page_as_svg_and_png(folder: Path) -> None:
    names = {path.relative_to(folder / "figures").as_posix() for path in (folder / "figures").rglob("*.*")}
    for name in ("one/distribution", "one/profiles", "one/modules-1", "one/modules-2", "one/projects", "search-1"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    for path in (folder / "figures").rglob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in (folder / "figures").rglob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_runs_that_cannot_be_compared_say_why_on_the_page(tmp_path: Path) -> None:
    runs = [keep(RUN, tmp_path / "a"), keep(made_up({"default": {}}, clang="19.1.0"), tmp_path / "b")]
    CliRunner().invoke(application, ["report", *map(str, runs), "--html", str(tmp_path / "page.html")])
    assert "a and b cannot be compared: clang is 22.1.8" in (tmp_path / "page.html").read_text()


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"mlgo-gym\[report\]"):
        plots.figures_of(RUN)


def test_curves_alone_are_drawn_or_refused(tmp_path: Path) -> None:
    path = search_file(tmp_path / "greedy.jsonl")
    answer = CliRunner().invoke(application, ["report", str(path)])
    assert isinstance(answer.exception, MlgoError)
    assert CliRunner().invoke(application, ["report", str(path), "--html", str(tmp_path / "x.html")]).exit_code == 0


def test_json_is_one_value_however_many_runs_there_are(tmp_path: Path) -> None:
    runs = [str(keep(RUN, tmp_path / "one")), str(keep(made_up({"threshold:5": {"c": 250}}), tmp_path / "two"))]
    alone = json.loads(CliRunner().invoke(application, ["report", runs[0], "--json"]).stdout)
    both = json.loads(CliRunner().invoke(application, ["report", *runs, "--json"]).stdout)
    assert list(both) == ["one", "two"]
    assert both["one"] == alone
    assert both["two"]["configuration"]["policies"] == {"threshold:5": "threshold:5"}


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_tables_for_papers_escape_what_is_special(form: str, tmp_path: Path) -> None:
    run = keep(RUN, tmp_path / "run")
    text = CliRunner().invoke(application, ["report", str(run), "--format", form]).stdout
    assert ("\\<my\\_rule\\> & co" if form == "markdown" else "<my\\_rule> \\& co") in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == (0 if form == "markdown" else 8)


def test_a_table_of_nothing_and_a_pipe() -> None:
    assert as_latex([]) == "% needs \\usepackage{booktabs}"
    assert as_markdown([], ["a|b"]) == "- a\\|b"


def test_the_command_has_everything_that_was_asked_for() -> None:
    kept = configuration(split="test", limit=4, seed=2, arguments={"max_decisions": 3}, policies={"a": "a", "b c": "b"})
    assert command_of(kept) == (
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus folder --split test --limit 4 --policy a --policy 'b c' --seed 2 "
        "--set max_decisions=3 --output RESULTS"
    )
