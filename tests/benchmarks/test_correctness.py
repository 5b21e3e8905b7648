"""Random policies do not change the output of programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_programs_compiled_under_random_policies_give_their_output(tmp_path: Path) -> None:
    programs, environments = ["kernels/keccak", "kernels/sha2"], ["mlgo/Inline-v0", "mlgo/Joint-v0"]
    words = ["--policies", "2", "--output", str(tmp_path), "--programs", *programs]
    command = [sys.executable, "-m", "benchmarks.correctness", *words, "--environments", *environments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert {row["outcome"] for row in rows} == {"correct"}
    assert sum(row["changed"] for row in rows) > 0, "random policies make other objects"
