"""`mlgo-gym evaluate` and `mlgo-gym report`, run in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mlgo_gym.cli.application import application
from mlgo_gym.cli.evaluate import split_policies
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.model_files import MODEL_POLICIES
from mlgo_gym.policies.rules import RULES


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(application, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_table_is_printed_and_printed_again(corpus: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", "mlgo/Inline-v0", "--corpus", corpus, "--policy", "default,never", "--output", tmp_path)
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    for word in (
        "default",
        "never",
        "text bytes",
        "3 modules (3 at Oz)",
        "`default` equals plain clang on every module.",
    ):
        assert word in first.stdout
    again = run("report", tmp_path).stdout
    assert set(first.stdout.splitlines()) <= set(again.splitlines())
    assert "Where never loses most" in again
    assert run(*arguments).stdout == first.stdout


def test_arguments_reach_the_environment(corpus: Path) -> None:
    result = run(
        "evaluate", "mlgo/Inline-v0", "--corpus", corpus, "--policy", "never", "--metric", "object",
        "--set", "reward=log", "--max-decisions", 3, "--clang", "bundled", "--set", "strict=true", "--json",
    )  # fmt: skip
    data = json.loads(result.stdout)
    assert data["configuration"]["metric"] == "object"
    assert data["configuration"]["arguments"] == {
        "metric": "object", "reward": "log", "max_decisions": 3, "strict": True
    }  # fmt: skip


def test_a_limit_takes_so_many_modules(corpus: Path) -> None:
    result = run("evaluate", "mlgo/Inline-v0", "--corpus", corpus, "--limit", 2, "--json")
    assert json.loads(result.stdout)["configuration"]["modules"] == 2


def test_a_split_and_several_episodes_at_once(varied: str) -> None:
    whole, part = (
        json.loads(run("evaluate", "mlgo/Inline-v0", "--corpus", varied, "--envs", 3, *more, "--json").stdout)
        for more in ((), ("--split", "train"))
    )
    assert part["configuration"]["split"] == "train"
    assert 0 < part["configuration"]["modules"] <= whole["configuration"]["modules"] == 5


def test_the_help_names_every_policy_and_what_follows_an_evaluation() -> None:
    words = " ".join(run("evaluate", "--help").stdout.replace("│", " ").split())
    for name in (*RULES, *MODEL_POLICIES, "clang:FLAGS", "package.module:Name", "file.py:Name"):
        assert name.removesuffix("FILE") in words
    for command in ("validate", "trace", "replay"):
        assert f"mlgo-gym {command}" in words


def test_failed_episodes_show_in_the_exit_status(broken: Path) -> None:
    result = run("evaluate", "mlgo/Inline-v0", "--corpus", broken)
    assert result.exit_code == 1
    assert "Failed: 1 episode:\n  default on broken: " in result.stdout


def test_what_cannot_be_done_is_one_of_our_errors(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match="did you mean never"):
        run("evaluate", "mlgo/Inline-v0", "--corpus", corpus, "--policy", "nver")
    with pytest.raises(MlgoError, match=r"expected results in .*, got none"):
        run("report", tmp_path)


@pytest.mark.parametrize(
    ("texts", "policies"),
    [
        (["default"], ["default"]),
        (["default,random", "never"], ["default", "random", "never"]),
        (["clang:-mllvm,-inline-threshold=20"], ["clang:-mllvm,-inline-threshold=20"]),
        (["default, never,clang:-O1,-w"], ["default", "never", "clang:-O1,-w"]),
        (["default,default", "default"], ["default"]),
    ],
)
def test_lists_of_policies_are_split_but_for_flags(texts: list[str], policies: list[str]) -> None:
    assert split_policies(texts) == policies
