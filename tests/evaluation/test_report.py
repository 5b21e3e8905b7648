"""Tables for a person to read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mlgo_gym.evaluation import report
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.report import as_data, as_text, by_project, notes, overview
from mlgo_gym.evaluation.result import EvaluationResult
from tests.evaluation.conftest import MakeResult


@pytest.fixture
def result(configuration: Configuration, make_result: MakeResult) -> EvaluationResult:
    episodes = (
        make_result("default", "a", 100, 100, project="one"),
        make_result("default", "b", 201, 200, project="one"),
        make_result("default", "c", 50, 50, project="two"),
        make_result("never", "a", 110, 100, project="one"),
        make_result("never", "b", 190, 200, project="one"),
        make_result("never", "c", status="failed", measures={}, project="two", error={"message": "lost\nand gone"}),
        make_result("default", "d", status="no-decisions", measures={}),
    )
    return EvaluationResult(replace(configuration, policies={"default": "default", "never": "never"}), episodes)


def test_the_overview_has_a_row_for_each_policy(result: EvaluationResult) -> None:
    table = overview(result)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert rows[0] == {
        "policy": "default",
        "modules": "3",
        "text bytes": "351",
        "plain clang": "350",
        "total": "+0.29 %",
        "geo-mean": "+0.17 %",
        "95 % interval": rows[0]["95 % interval"],
        "better": "0",
        "worse": "1",
        "equal": "2",
        "failed": "0",
        "seconds": "0.0",
    }
    assert (rows[1]["modules"], rows[1]["total"], rows[1]["failed"]) == ("2", "0", "1")


def test_the_title_says_at_which_level_the_modules_were_recorded(result: EvaluationResult) -> None:
    levels = {"folder": {"Oz": 2, "no functions": 1}}
    mixed = replace(result, configuration=replace(result.configuration, levels=levels))
    assert overview(mixed).title == ("mlgo/Inline-v0 on folder: 3 modules (2 at Oz, 1 with no functions), clang 22.1.8")


def test_the_title_says_it_for_each_corpus_and_which_part_it_is(result: EvaluationResult) -> None:
    levels = {"b@Os": {"Os": 1}, "a": {"Oz": 2}}
    joined = replace(result.configuration, levels=levels, corpus="a,b@Os", split="test")
    assert overview(replace(result, configuration=joined)).title == (
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


def test_the_notes_name_what_differs_what_failed_and_what_was_left_out(result: EvaluationResult) -> None:
    text = "\n".join(notes(result))
    assert "Without a decision, and in no sum: 1 module: d" in text
    assert "`default` differs from plain clang in 1 module: b (text_size +1)" in text
    assert "never on c: lost\n" in f"{text}\n"


def test_without_scipy_the_intervals_are_left_out_and_the_extra_is_named(
    result: EvaluationResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "95 % interval" in overview(result).columns
    monkeypatch.setattr(report, "intervals_available", lambda: False)
    assert "95 % interval" not in overview(result).columns
    assert "pip install 'mlgo-gym[evaluation]'" in notes(result)[-1]
    assert "mean_interval" not in json.dumps(as_data(result))


def test_text_is_aligned(result: EvaluationResult) -> None:
    lines = as_text(result).splitlines()
    heading, line, *rows = lines[2:6]
    assert len(heading) == len(line) == len(rows[0]) == len(rows[1])


def test_data_can_be_written_as_json(result: EvaluationResult) -> None:
    data = json.loads(json.dumps(as_data(result)))
    assert data["policies"][0]["changes"]["text_size"]["worse"] == 1
    assert data["failures"][0]["policy"] == "never"
