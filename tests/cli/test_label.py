"""`mlgo-gym label`: labels on disk, and a report."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.training import read_labels


def test_it_labels_a_corpus_and_resumes(corpus: Path, tmp_path: Path) -> None:
    command = ["label", str(corpus), "--output", str(tmp_path), "--compiles", "3", "--check", "1"]
    first = CliRunner().invoke(application, command)
    assert first.exit_code == 0, first.output
    labels = read_labels([tmp_path])
    assert f"{len(labels)} labels of 18 decisions in 3 modules" in first.output
    assert "2 labels against single flips: 100% exact" in first.output
    again = CliRunner().invoke(application, command)
    assert again.output == first.output


def test_it_labels_evictions_by_look_ahead(varied: str, tmp_path: Path) -> None:
    command = ["label", varied, "--output", str(tmp_path), "--compiles", "4", "--limit", "3", "--json"]
    result = CliRunner().invoke(application, [*command, "--environment", "mlgo/RegAllocEvict-v0"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["labels"] == len(read_labels([tmp_path])) > 0
    assert (report["flips"], report["checked"], report["failed"]) == (0, [], {})
