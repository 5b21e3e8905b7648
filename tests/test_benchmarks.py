"""The smallest runs of benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(name: str, *options: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_programs_compiled_under_random_policies_give_their_output(tmp_path: Path) -> None:
    options = ["--policies", "2", "--output", str(tmp_path), "--programs", "kernels/keccak", "kernels/sha2"]
    run("correctness", *options, "--environments", "mlgo/Inline-v0", "mlgo/Joint-v0")
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert {row["outcome"] for row in rows} == {"correct"}
    assert sum(row["changed"] for row in rows) > 0, "random policies make other objects"


@pytest.mark.slow
def test_an_evolution_of_rules_is_resumed(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    options = ["--levels", "Oz", "--minutes", "0", "--seeds", "1", "--modules", "2", "--work", str(tmp_path)]
    for _ in range(2):  # the second run finds everything done
        run("evolution", *options, "--output", str(tmp_path / "rules.json"))
        found = json.loads((tmp_path / "rules.json").read_text())["Oz"]
        assert {"threshold:5", "last-call"} < found.keys()
        assert [len(curve) for curve in found["curves"]] == [1]
        assert all(found["rules"])
