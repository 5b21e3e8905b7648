"""Tables and notes of an evaluation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.evaluation.report import all_tables, as_data, as_text, by_language, by_project, notes
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.table import Table
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


def overview_of(result: EvaluationResult) -> Table:
    return overview(result.configuration, result.summaries())


def test_the_overview_has_a_row_for_each_policy(result: EvaluationResult) -> None:
    table = overview_of(result)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert rows[0] == {
        "policy": "default",
        "modules": "3",
        "text bytes": "351",
        "clang": "350",
        "total": "+0.29 %",
        "better": "0",
        "equal": "2",
        "worse": "1",
        "failed": "0",
    }
    assert (rows[1]["modules"], rows[1]["total"], rows[1]["failed"]) == ("2", "0", "1")


def test_a_second_table_says_how_sure_that_is(result: EvaluationResult) -> None:
    table = certainty("text", result.summaries())
    assert table.columns == ("policy", "total", "geo-mean", "middle half")
    assert table.rows[0][1].startswith("+0.29 [")
    assert table.rows[1][2].startswith("+2.19 [")


def test_policies_are_compared_with_each_other(result: EvaluationResult) -> None:
    table = between_policies(result.pairs)
    assert table is not None
    assert [row[0] for row in table.rows] == ["never / default"]
    assert table.rows[0][1].startswith("50 %")
    assert table.rows[0][3] == "1/0/1"


def test_languages_have_rows_where_there_are_several(result: EvaluationResult) -> None:
    assert by_language(result) is None
    facts = {
        name: ModuleFacts(name, "", None, language, None)
        for name, language in zip("abc", ("C", "C++", "C"), strict=True)
    }
    table = by_language(replace(result, modules=facts))
    assert table is not None
    assert [row[:2] for row in table.rows] == [("C", "2"), ("C++", "1")]


def test_the_largest_changes_are_named(result: EvaluationResult) -> None:
    wins, losses = wins_and_losses("text", result.summaries())
    assert (wins.title, losses.title) == ("Where never wins most", "Where never loses most")
    assert wins.rows == (("b", "200", "-10", "-4.98 %"),)
    assert losses.rows == (("a", "100", "+10", "+9.90 %"),)


def test_every_table_fits_a_page_of_80_columns(configuration: Configuration, make_result: MakeResult) -> None:
    policies = ("default", "inline-os", "threshold:5", "clang:-mllvm,-inline-threshold=20")
    episodes = tuple(
        make_result(
            policy, f"{'a/very/long/path/' * 5}{number}.c", 1_000_000 + number, 1_100_000, project=f"p{number % 3}"
        )
        for policy in policies
        for number in range(9)
    )
    result = EvaluationResult(replace(configuration, policies={name: name for name in policies}), episodes)
    for table in all_tables(result):
        lines = table.as_text().splitlines()[1:]
        assert max(map(len, lines)) <= 80, table.title


def test_the_title_says_at_which_level_the_modules_were_recorded(result: EvaluationResult) -> None:
    levels = {"folder": {"Oz": 2, "no functions": 1}}
    mixed = replace(result, configuration=replace(result.configuration, levels=levels))
    assert overview_of(mixed).title == (
        "mlgo/Inline-v0 on folder: 3 modules (2 at Oz, 1 with no functions), clang 22.1.8"
    )


def test_the_title_says_it_for_each_corpus_and_which_part_it_is(result: EvaluationResult) -> None:
    levels = {"b@Os": {"Os": 1}, "a": {"Oz": 2}}
    joined = replace(result.configuration, levels=levels, corpus="some/where/a/,b@Os", split="test")
    assert overview_of(replace(result, configuration=joined)).title == (
        "mlgo/Inline-v0 on a,b@Os (test): 3 modules (a: 2 at Oz; b@Os: 1 at Os), clang 22.1.8"
    )


def test_projects_have_rows_of_their_own(result: EvaluationResult) -> None:
    table = by_project(result)
    assert table is not None
    assert table.columns == ("project", "modules", "default", "never")
    assert [row[:2] for row in table.rows] == [("one", "2"), ("two", "1")]
    assert table.rows[1][2:] == ("0", "-")


def test_projects_of_one_module_each_are_not_listed(result: EvaluationResult) -> None:
    apart = tuple(replace(each, project=each.module) for each in result.episodes)
    assert by_project(replace(result, episodes=apart)) is None


def test_the_notes_name_deviations_failures_and_exclusions(result: EvaluationResult) -> None:
    text = "\n".join(notes(result))
    assert "Excluded for lack of decisions: 1 module: d" in text
    assert "`default` differs from plain clang in 1 module: b (text +1)" in text
    assert "never on c: stalled\n" in f"{text}\n"


def test_text_is_aligned(result: EvaluationResult) -> None:
    lines = as_text(result).splitlines()
    heading, line, *rows = lines[2:6]
    assert len(heading) == len(line) == len(rows[0]) == len(rows[1])


def test_data_can_be_written_as_json(result: EvaluationResult) -> None:
    data = json.loads(json.dumps(as_data(result)))
    assert data["policies"][0]["changes"]["text"]["worse"] == 1
    assert data["failures"][0]["policy"] == "never"
    assert data["policies"][1]["worst"][0]["module"] == "a"
    assert data["pairs"][0]["probability"]["value"] == 0.5


def test_a_result_is_printed_as_its_first_two_tables(result: EvaluationResult) -> None:
    summaries = result.summaries()
    expected = [overview(result.configuration, summaries), certainty("text", summaries)]
    assert str(result) == "\n\n".join(table.as_text() for table in expected)
