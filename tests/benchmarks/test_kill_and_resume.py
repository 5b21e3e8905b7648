"""A killed and resumed evaluation gives the table of an uninterrupted one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


def kill_and_resume(corpus: str, *options: str) -> str:
    command = [sys.executable, str(PROGRAM), "--corpus", corpus, *options]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_in_process_and_in_worker_processes(varied: str, jobs: str) -> None:
    assert "5 kills; all processes ended" in kill_and_resume(varied, "--jobs", jobs, "--kills", "5")


@pytest.mark.libraries
@pytest.mark.timeout(1000)
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_on_a_ray_cluster(varied: str) -> None:
    assert "2 kills; all processes ended" in kill_and_resume(varied, "--ray", "--jobs", "2", "--kills", "2")
