"""`mlgo-gym explain` and `mlgo-gym importance`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.envs import InlineEnv


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(application, ["explain", *arguments])
    return result.exit_code, result.stdout if result.exception is None else str(result.exception)


def test_one_policy_is_compared_with_clang_and_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, text = run("c/raster", "--policy", "never", "--show", "1", "--html", str(page))
    assert status == 0
    assert text.startswith("c/raster, clang 22.1.8: never against default")
    assert "<svg" in page.read_text()


def test_flags_apply_to_a_file_of_bitcode(tmp_path: Path) -> None:
    env = InlineEnv(corpus="builtin")
    file = tmp_path / "mine.bc"
    file.write_bytes(env.corpus.module("c/raster").bitcode.read_bytes())
    status, text = run(str(file), "--policy", "always,never", "--flags", "-Os -fPIC", "--show", "0", "--json")
    assert status == 0
    data = json.loads(text)
    assert (data["module"], data["policies"]) == ("mine", ["always", "never"])
    assert data["text"]["first"] != data["text"]["second"]


def test_two_different_policies_are_required() -> None:
    assert "expected two" not in run("c/raster", "--policy", "never", "--show", "0")[1]
    assert "expected two different policies" in run("c/raster")[1]
    assert "expected two different policies" in run("c/raster", "--policy", "never,always,default")[1]


def test_importance_lists_used_and_unused_features() -> None:
    result = CliRunner().invoke(
        application,
        [
            "importance",
            "builtin",
            "--policy",
            "threshold:20",
            "--limit",
            "2",
            "--largest",
            "25000",
            "--cost-features",
            "0",
        ],
    )
    assert result.exit_code == 0, result.output
    assert "cost_estimate" in result.stdout.split("unused:")[0]
    assert "callee_users" in result.stdout.split("unused:")[1]
    assert max(map(len, result.stdout.split("unused:")[0].splitlines())) <= 80
