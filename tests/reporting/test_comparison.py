"""Comparisons of evaluations, and refusals to compare."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.reporting.comparability import differences
from mlgo_gym.reporting.comparison import compare
from mlgo_gym.reporting.inputs import run_names
from tests.reporting.runs import keep, made_up

BEFORE = made_up({"default": {}, "rule": {"a": 90, "b": 190, "c": 310}})
AFTER = made_up({"default": {}, "rule": {"a": 90, "b": 180, "c": 320}, "new": {"a": 50}}, seed=3)


def first_difference(first: EvaluationResult, other: EvaluationResult) -> str:
    """The first reason why two evaluations cannot be compared; empty if they can."""
    return next(differences(first, other), "")


def test_policies_of_one_name_are_compared_module_by_module() -> None:
    found = compare({"before": BEFORE, "after": AFTER})
    assert [(later.policy, before.policy) for later, before, _ in found.pairs] == [
        ("default", "default"),
        ("rule", "rule"),
    ]
    _, _, pair = found.pairs[1]
    assert (pair.change.better, pair.change.equal, pair.change.worse) == (1, 2, 1)
    assert pair.probability.value == 0.5
    assert found.notes == ("seed: 0 in before, 3 in after", "only in after: new")


def test_policies_without_a_namesake_are_compared_with_all() -> None:
    found = compare({"before": made_up({"one": {}}), "after": made_up({"two": {"a": 1}, "three": {}})})
    assert [(later.policy, before.policy) for later, before, _ in found.pairs] == [("two", "one"), ("three", "one")]


def test_the_tables_name_what_changed_and_fit_a_page() -> None:
    tables = compare({"before": BEFORE, "after": AFTER}).tables()
    text = "\n".join(table.as_text() for table in tables)
    assert "Smaller now: rule" in text
    assert "Larger now: rule" in text
    assert max(map(len, text.splitlines())) <= 80 + len(" against before")


def test_another_policy_of_the_same_name_is_told() -> None:
    plain = made_up({"rule": {}})
    other = replace(plain, configuration=replace(plain.configuration, policies={"rule": "rule 1234"}))
    assert "rule is another policy in after: rule 1234, was rule" in compare({"before": BEFORE, "after": other}).notes


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"clang": "19.1.0"}, "clang is 22.1.8 in the first and 19.1.0 in the second"),
        ({"environment": "mlgo/Joint-v0"}, "environment is mlgo/Inline-v0"),
        ({"metric": "object"}, "metric is text"),
        ({"arguments": {"max_decisions": 9}}, "the argument max_decisions is None in the first and 9 in the second"),
        ({"modules_digest": "other", "modules": 3}, "4 modules of folder in the first and 3 modules of folder"),
        ({"modules_digest": "other"}, "with other contents"),
    ],
)
def test_other_settings_are_refused(changes: dict[str, Any], named: str) -> None:
    assert named in first_difference(BEFORE, made_up({"rule": {}}, **changes))


@pytest.mark.parametrize(
    "arguments",
    [
        {"observation": "dict", "compile_options": {"timeout": 3}},
        {"callee_features": True, "reward": "bytes", "credit": True, "module_order": "cycle"},
        {"compile_options": {"fork_resets": False, "memory_limit": None, "preoptimize": False, "trust_flags": True}},
    ],
)
def test_arguments_that_change_no_size_do_not_prevent_a_comparison(arguments: dict[str, Any]) -> None:
    assert not first_difference(BEFORE, made_up({"rule": {}}, arguments=arguments))


def test_a_nested_argument_that_changes_sizes_prevents_a_comparison() -> None:
    options = {"fork_resets": False, "extra_flags": ["-g"]}
    other = made_up({"rule": {}}, arguments={"compile_options": options})
    assert "compile_options is None in the first and {'extra_flags': ['-g']}" in first_difference(BEFORE, other)


def with_module(name: str, **changes: Any) -> EvaluationResult:
    modules = {**BEFORE.modules, name: replace(BEFORE.modules[name], **changes)}
    return replace(made_up({"rule": {}}, modules_digest="other"), modules=modules)


def test_the_first_module_that_differs_is_named() -> None:
    assert "the module b has other contents" in first_difference(BEFORE, with_module("b", digest="new"))
    other = with_module("c", flags=("-cc1", "-Os"))
    assert "the module c has other flags: -Oz only in the first, -Os only in the second" in first_difference(
        BEFORE, other
    )
    assert "another order" in first_difference(BEFORE, with_module("c", flags=("-Oz", "-cc1")))
    fewer = replace(other, modules={name: facts for name, facts in BEFORE.modules.items() if name != "a"})
    assert "the module a is only in the first" in first_difference(BEFORE, fewer)


def test_another_size_of_plain_clang_is_refused_even_if_everything_else_is_equal() -> None:
    other = made_up({"rule": {}}, baselines={"c": 301})
    assert "plain clang's text of c is 300 in the first and 301 in the second" in first_difference(BEFORE, other)


def test_one_run_is_not_enough() -> None:
    with pytest.raises(MlgoError, match="two or more evaluations"):
        compare({"before": BEFORE})


def test_the_command_prints_tables_or_json(tmp_path: Path) -> None:
    folders = [str(keep(BEFORE, tmp_path / "x" / "run")), str(keep(AFTER, tmp_path / "y" / "run"))]
    text = CliRunner().invoke(application, ["compare", *folders])
    assert text.exit_code == 0, text.output
    assert "y/run against x/run: text" in text.stdout
    data = json.loads(CliRunner().invoke(application, ["compare", *folders, "--json"]).stdout)
    assert data["pairs"][1]["worst"][0]["module"] == "c"
    assert data["pairs"][1]["first"] == {"run": "y/run", "policy": "rule"}


def test_a_run_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"got .* twice; name it once"):
        run_names([tmp_path, tmp_path / "." / ""])
