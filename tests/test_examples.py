"""The examples run as their headers say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, corpus: Path) -> str:
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), str(corpus)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_random_agent_prints_what_it_did(corpus: Path) -> None:
    printed = run("random_agent.py", corpus)
    assert "calls: clang asks whether to inline" in printed
    assert "random decisions" in printed
    assert "reward" in printed


def test_my_policy_is_compared_with_clang(corpus: Path) -> None:
    rows = [line.split() for line in run("my_policy.py", corpus).splitlines()]
    assert ["default", "2"] in [row[:2] for row in rows]
    assert ["one", "block", "2"] in [row[:3] for row in rows]
