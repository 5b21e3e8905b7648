"""The report as a page, as figures, and as tables for papers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.errors import MlgoError
from mlgo_gym.reporting.page import command_of
from mlgo_gym.reporting.paper import as_latex, as_markdown
from tests.reporting.runs import Page, configuration, keep, made_up, search_file

RUN = made_up({"default": {}, "<my_rule> & co": {"a": 50, "b": 260, "d": 399}, "threshold:5": {"c": 1}})
OTHER = made_up({"threshold:5": {"c": 250}})


def report(*words: object) -> str:
    answer = CliRunner().invoke(application, ["report", *map(str, words)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.slow
def test_the_page_is_complete_in_itself_and_every_figure_lies_beside_it(tmp_path: Path) -> None:
    runs = [keep(RUN, tmp_path / "one"), keep(OTHER, tmp_path / "two"), search_file(tmp_path / "greedy.jsonl")]
    figures = tmp_path / "figures"
    assert "== one ==" in report(*runs, "--html", tmp_path / "page.html", "--figures", figures)
    check_page((tmp_path / "page.html").read_text())
    text = (tmp_path / "page.html").read_text()
    assert "<title>a (C): 100 → 50, -49.50 %</title>" in text
    for words in ("From one to two", "greedy (2 modules)", "Rust", "Where threshold:5 wins most", "Agarwal", "abc"):
        assert words in text
    names = {path.relative_to(figures).as_posix() for path in figures.rglob("*.*")}
    for name in ("one/distribution", "one/profiles", "one/modules-1", "one/modules-2", "one/projects", "search-1"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    assert all(ElementTree.parse(path).getroot().tag.endswith("svg") for path in figures.rglob("*.svg"))
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures.rglob("*.png"))
    incomparable = keep(made_up({"default": {}}, clang="19.1.0"), tmp_path / "b")
    report(runs[0], incomparable, "--html", tmp_path / "page.html")
    assert "one and b cannot be compared: clang is 22.1.8" in (tmp_path / "page.html").read_text()


def check_page(text: str) -> None:
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "prefers-color-scheme: dark" in text


def test_curves_alone_are_drawn_on_a_page_of_their_own(tmp_path: Path) -> None:
    path = search_file(tmp_path / "greedy.jsonl")
    assert isinstance(CliRunner().invoke(application, ["report", str(path)]).exception, MlgoError)
    report(path, "--html", tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text()
    check_page(text)
    assert "greedy (2 modules)" in text


def test_json_is_one_value_however_many_runs_there_are(tmp_path: Path) -> None:
    runs = [keep(RUN, tmp_path / "one"), keep(OTHER, tmp_path / "two")]
    alone, both = json.loads(report(runs[0], "--json")), json.loads(report(*runs, "--json"))
    assert list(both) == ["one", "two"]
    assert both["one"] == alone
    assert both["two"]["configuration"]["policies"] == {"threshold:5": "threshold:5"}


def test_tables_for_papers_escape_special_characters(tmp_path: Path) -> None:
    run = keep(RUN, tmp_path / "run")
    for form, escaped, tables in (("markdown", "\\<my\\_rule\\> & co", 0), ("latex", "<my\\_rule> \\& co", 8)):
        text = report(run, "--format", form)
        assert escaped in text
        assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == tables
    assert as_latex([]) == "% needs \\usepackage{booktabs}"
    assert as_markdown([], ["a|b"]) == "- a\\|b"


def test_the_command_of_a_page_reproduces_the_run() -> None:
    kept = configuration(split="test", limit=4, seed=2, arguments={"max_decisions": 3}, policies={"a": "a", "b c": "b"})
    assert command_of(kept) == (
        "mlgo-gym evaluate mlgo/Inline-v0 --corpus folder --split test --limit 4 --policy a --policy 'b c' --seed 2 "
        "--set max_decisions=3 --output RESULTS"
    )
