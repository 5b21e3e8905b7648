"""`mlgo-gym explain` and `mlgo-gym importance`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from tests.cli.command import run, run_json


def test_one_policy_is_compared_with_clang_and_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("explain", "c/raster", "--policy", "never", "--show", "1", "--html", page)
    assert result.exit_code == 0
    assert result.stdout.startswith("c/raster, clang 22.1.8: never against default")
    assert "<svg" in page.read_text()
    for more in ((), ("--policy", "never,always,default")):
        with pytest.raises(MlgoError, match="expected two different policies"):
            run("explain", "c/raster", *more)


def test_flags_apply_to_a_file_of_bitcode(tmp_path: Path) -> None:
    file = tmp_path / "mine.bc"
    file.write_bytes(InlineEnv(corpus="builtin").corpus.module("c/raster").bitcode.read_bytes())
    data = run_json("explain", file, "--policy", "always,never", "--flags", "-Os -fPIC", "--show", "0")
    assert (data["module"], data["policies"]) == ("mine", ["always", "never"])
    assert data["text"]["first"] != data["text"]["second"]


def test_importance_lists_used_and_unused_features() -> None:
    options = ("--policy", "threshold:20", "--limit", 2, "--largest", 25_000, "--cost-features", 0)
    result = run("importance", "builtin", *options)
    assert result.exit_code == 0, result.output
    used, _, unused = result.stdout.partition("unused:")
    assert "cost_estimate" in used
    assert "callee_users" in unused
    assert max(map(len, used.splitlines())) <= 80
