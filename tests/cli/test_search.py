"""`mlgo-gym search` and `mlgo-gym label`: results on disk, which the same command resumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.training import read_labels
from tests.cli.command import run, run_json

SEARCH = ("search", "mlgo/Inline-v0", "--corpus")


def test_a_search_prints_a_row_for_each_module_and_resumes_from_its_output(calls: Path, tmp_path: Path) -> None:
    arguments = (*SEARCH, calls, "--algorithm", "bundles", "--compiles", 4, "--output", tmp_path / "found.jsonl")
    result = run(*arguments)
    assert result.exit_code == 0
    header, row, summary = result.stdout.strip().splitlines()
    assert header.split() == ["decisions", "compiles", "clang", "found", "change", "module"]
    assert row.endswith("calls")
    assert summary.startswith("1 modules: total")
    assert summary.endswith("4 compiles")
    (found,) = run_json(*arguments)
    assert (found["verified"], found["module"]) == (True, "calls")
    with pytest.raises(MlgoError, match="choose another output"):
        run(*arguments, "--seed", 1)


def test_an_unknown_algorithm_is_refused_at_once(calls: Path) -> None:
    with pytest.raises(MlgoError, match="expected one of greedy, random"):
        run(*SEARCH, calls, "--algorithm", "magic")
    with pytest.raises(MlgoError, match="got 'greedy'; use bundles"):
        run(*SEARCH, calls, "--start", "never")


def test_it_labels_a_corpus_and_resumes(corpus: Path, tmp_path: Path) -> None:
    command = ("label", corpus, "--output", tmp_path, "--compiles", 3, "--check", 1)
    first = run(*command)
    assert first.exit_code == 0, first.output
    labels = read_labels([tmp_path])
    assert f"{len(labels)} labels of 18 decisions in 3 modules" in first.output
    assert "2 labels against single flips: 100% exact" in first.output
    assert run(*command).output == first.output


def test_it_labels_evictions_by_look_ahead(varied: str, tmp_path: Path) -> None:
    options = ("--compiles", 4, "--limit", 3, "--environment", "mlgo/RegAllocEvict-v0")
    report = run_json("label", varied, "--output", tmp_path, *options)
    assert report["labels"] == len(read_labels([tmp_path])) > 0
    assert (report["flips"], report["checked"], report["failed"]) == (0, [], {})
