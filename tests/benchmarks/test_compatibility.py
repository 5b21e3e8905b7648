"""The table of versions contains the sessions that ran."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import compatibility


def test_the_table_has_only_sessions_that_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "RESULTS", tmp_path)
    facts = {"python": "3.10.13", "gymnasium": "1.2.2", "numpy": "1.24.4", "clang": "22.1.8", "tests": "all"}
    (tmp_path / "suite-3.10-lowest-direct.json").write_text(json.dumps(facts))
    (tmp_path / "suite-3.10-lowest-direct.xml").write_text(
        '<testsuites><testsuite tests="9" failures="1" errors="0" skipped="2"/></testsuites>'
    )
    assert compatibility.row("suite-3.10(lowest-direct)", "failed") == (
        "| `suite-3.10(lowest-direct)` | 3.10.13 | 1.2.2 | 1.24.4 | 22.1.8 | all | 6 | 2 | 1 | failed |"
    )
    assert compatibility.row("suite-3.12(highest)", "skipped") is None

    # The format of nox's report.
    signatures = {"suite-3.10(lowest-direct)": "failed", "suite-3.12(highest)": "skipped"}
    sessions = [{"name": "suite", "signatures": ["suite", name], "result": end} for name, end in signatures.items()]
    (tmp_path / "nox.json").write_text(json.dumps({"result": 0, "sessions": sessions}))
    page = tmp_path / "page.md"
    page.write_text("before\n" + compatibility.BEGIN + "old\n" + compatibility.END + "\nafter\n")
    monkeypatch.setattr(compatibility, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["compatibility.py", str(tmp_path / "nox.json")])
    compatibility.main()
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert [line.split(" | ")[1] for line in lines if line.startswith("| `")] == ["3.10.13"]
    assert "old" not in lines
    assert compatibility.label_of("clang(compiler='wheel-17')") == "clang-wheel-17"
