"""Tables and notes of an evaluation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.evaluation.report import all_tables, as_data, as_text, by_language, by_project, notes
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.tables import between_policies, certainty, overview, wins_and_losses
from tests.evaluation.conftest import MakeResult


@pytest.fixture
def result(configuration: Configuration, make_result: MakeResult) -> EvaluationResult:
    episodes = (
        make_result("default", "a", 100, 100, project="one"),
        make_result("default", "b", 201, 200, project="one"),
        make_result("default", "c", 50, 50, project="two"),
        make_result("never", "a", 110, 100, project="one"),
        make_result("never", "b", 190, 200, project="one"),
        make_result("never", "c", status="failed", metrics={}, project="two", error={"message": "stalled\nfor 60 s"}),
        make_result("default", "d", status="no-decisions", metrics={}),
    )
    return EvaluationResult(replace(configuration, policies={"default": "default", "never": "never"}), episodes)


def test_the_tables_have_the_figures_of_each_policy(result: EvaluationResult) -> None:
    summaries = result.summaries()
    table = overview(result.configuration, summaries)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert rows[0] == {
        "policy": "default", "modules": "3", "text bytes": "351", "clang": "350", "total": "+0.29 %", "better": "0",
        "equal": "2", "worse": "1", "failed": "0",
    }  # fmt: skip
    assert (rows[1]["modules"], rows[1]["total"], rows[1]["failed"]) == ("2", "0", "1")
    sure = certainty("text", summaries)
    assert sure.columns == ("policy", "total", "geo-mean", "middle half")
    assert (sure.rows[0][1][:7], sure.rows[1][2][:7]) == ("+0.29 [", "+2.19 [")
    assert str(result) == f"{table.as_text()}\n\n{sure.as_text()}"
    heading, line, *lines = as_text(result).splitlines()[2:6]
    assert len(heading) == len(line) == len(lines[0]) == len(lines[1])
    pairs = between_policies(result.pairs)
    assert pairs is not None
    assert [(row[0], row[1][:4], row[3]) for row in pairs.rows] == [("never / default", "50 %", "1/0/1")]
    wins, losses = wins_and_losses("text", summaries)
    assert (wins.title, losses.title) == ("Where never wins most", "Where never loses most")
    assert wins.rows == (("b", "200", "-10", "-4.98 %"),)
    assert losses.rows == (("a", "100", "+10", "+9.90 %"),)


def test_languages_and_projects_have_rows_where_there_are_several(result: EvaluationResult) -> None:
    assert by_language(result) is None
    languages = zip("abc", ("C", "C++", "C"), strict=True)
    facts = {name: ModuleFacts(name, "", None, language, None) for name, language in languages}
    table = by_language(replace(result, modules=facts))
    assert table is not None
    assert [row[:2] for row in table.rows] == [("C", "2"), ("C++", "1")]
    table = by_project(result)
    assert table is not None
    assert table.columns == ("project", "modules", "default", "never")
    assert [row[:2] for row in table.rows] == [("one", "2"), ("two", "1")]
    assert table.rows[1][2:] == ("0", "-")
    apart = tuple(replace(episode, project=episode.module) for episode in result.episodes)
    assert by_project(replace(result, episodes=apart)) is None


def test_every_table_fits_a_page_of_80_columns(configuration: Configuration, make_result: MakeResult) -> None:
    policies = ("default", "inline-os", "threshold:5", "clang:-mllvm,-inline-threshold=20")
    name = "a/very/long/path/" * 5
    episodes = tuple(
        make_result(policy, f"{name}{number}.c", 1_000_000 + number, 1_100_000, project=f"p{number % 3}")
        for policy in policies
        for number in range(9)
    )
    result = EvaluationResult(replace(configuration, policies={name: name for name in policies}), episodes)
    for table in all_tables(result):
        assert max(map(len, table.as_text().splitlines()[1:])) <= 80, table.title


def test_the_title_has_corpora_levels_and_the_part(configuration: Configuration) -> None:
    levels = {"folder": {"Oz": 2, "no functions": 1}}
    assert overview(replace(configuration, levels=levels), []).title == (
        "mlgo/Inline-v0 on folder: 3 modules (2 at Oz, 1 with no functions), clang 22.1.8"
    )
    levels = {"b@Os": {"Os": 1}, "a": {"Oz": 2}}
    joined = replace(configuration, levels=levels, corpus="some/where/a/,b@Os", split="test")
    assert overview(joined, []).title == (
        "mlgo/Inline-v0 on a,b@Os (test): 3 modules (a: 2 at Oz; b@Os: 1 at Os), clang 22.1.8"
    )


def test_notes_and_data_name_deviations_failures_and_exclusions(result: EvaluationResult) -> None:
    text = "\n".join(notes(result))
    assert "Excluded for lack of decisions: 1 module: d" in text
    assert "`default` differs from plain clang in 1 module: b (text +1)" in text
    assert "never on c: stalled\n" in f"{text}\n"
    data = json.loads(json.dumps(as_data(result)))
    assert data["policies"][0]["changes"]["text"]["worse"] == 1
    assert data["failures"][0]["policy"] == "never"
    assert data["policies"][1]["worst"][0]["module"] == "a"
    assert data["pairs"][0]["probability"]["value"] == 0.5
