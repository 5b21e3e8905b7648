"""`mlgo-gym search`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from mlgo_gym.cli.application import application


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(application, ["search", "mlgo/Inline-v0", *arguments])
    return result.exit_code, result.stdout if result.exception is None else str(result.exception)


def test_a_search_prints_a_row_for_each_module_and_the_total(calls: Path) -> None:
    status, text = run("--corpus", str(calls), "--algorithm", "bundles", "--compiles", "4")
    assert status == 0
    header, row, summary = text.strip().splitlines()
    assert header.split() == ["decisions", "compiles", "clang", "found", "change", "module"]
    assert row.endswith("calls")
    assert summary.startswith("1 modules: total")
    assert summary.endswith("4 compiles")


def test_a_search_resumes_from_its_output(calls: Path, tmp_path: Path) -> None:
    arguments = ("--corpus", str(calls), "--compiles", "2", "--output", str(tmp_path / "found.jsonl"), "--json")
    first, second = run(*arguments), run(*arguments)
    assert first == second
    (result,) = json.loads(first[1])
    assert result["verified"]
    assert "choose another output" in run(*arguments, "--seed", "1")[1]


def test_an_unknown_algorithm_is_refused_at_once(calls: Path) -> None:
    assert "expected one of greedy, random" in run("--corpus", str(calls), "--algorithm", "magic")[1]
    assert "got 'greedy'; use bundles" in run("--corpus", str(calls), "--start", "never")[1]
