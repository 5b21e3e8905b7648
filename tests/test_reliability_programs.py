"""The programs that prove reliability do what they say: objects, slopes, the README's steps, the table of versions."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import compatibility, plain_evictions, readme
from benchmarks.soak_samples import LIMITS, Sample, slopes
from benchmarks.unwind_calls import forbid_unwind_calls

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(shutil.which("cc") is None, reason="cc, which links the programs, is not installed")
def test_programs_compiled_under_random_policies_give_their_output(tmp_path: Path) -> None:
    programs, environments = ["kernels/keccak", "kernels/sha2"], ["mlgo/Inline-v0", "mlgo/Joint-v0"]
    words = ["--linker", "cc", "--policies", "2", "--output", str(tmp_path), "--programs", *programs]
    command = [sys.executable, "-m", "benchmarks.correctness", *words, "--environments", *environments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert {row["outcome"] for row in rows} == {"right"}
    assert sum(row["changed"] for row in rows) > 0, "random policies make other objects"


def samples(growth: float) -> list[Sample]:
    """Samples of which one thing grows by so much in 10,000 episodes, and jumps about."""
    return [Sample(at, 20 * at, 100 + growth * at / 500 + (at * 7 % 5) / 10, 50, 3, 9, 1, 0, 1) for at in range(500)]


@pytest.mark.parametrize(("growth", "verdict"), [(0, "flat"), (LIMITS["host_memory"] * 3, "grows")])
def test_what_grows_is_told_from_what_jumps_about(growth: float, verdict: str) -> None:
    found = {each.name: each for each in slopes(samples(growth))}
    assert found["host_memory"].verdict == verdict
    assert found["host_memory"].slope == pytest.approx(growth, abs=1)
    assert {each.verdict for name, each in found.items() if name != "host_memory"} == {"flat"}


def test_every_command_of_the_readme_is_run_or_said_why_not() -> None:
    text = (ROOT / "README.md").read_text()
    everything, offline = (readme.steps(text, network=network) for network in (True, False))
    assert len(everything) == len(offline) > 10
    assert {step.text for step in everything if not step.words} == {
        step.text for step in everything if step.why_not in readme.ELSEWHERE.values()
    }
    assert all(bool(step.words) != bool(step.why_not) for step in offline)
    assert any("network" in step.why_not for step in offline)


def test_only_what_was_run_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "RESULTS", tmp_path)
    known = {"python": "3.10.13", "gymnasium": "1.2.2", "numpy": "1.24.4", "clang": "22.1.8", "tests": "all"}
    (tmp_path / "suite-3.10-lowest-direct.json").write_text(json.dumps(known))
    (tmp_path / "suite-3.10-lowest-direct.xml").write_text(
        '<testsuites><testsuite tests="9" failures="1" errors="0" skipped="2"/></testsuites>'
    )
    assert compatibility.row("suite-3.10(lowest-direct)", "failed") == (
        "| `suite-3.10(lowest-direct)` | 3.10.13 | 1.2.2 | 1.24.4 | 22.1.8 | all | 6 | 2 | 1 | failed |"
    )
    assert compatibility.row("suite-3.12(highest)", "skipped") is None

    # As nox writes it.
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


CLEANING_UP = """\
define void @f(ptr %0) #0 personality ptr @p {
  %2 = call i32 @g(ptr %0) #1
  invoke void @h(ptr %0)
          to label %3 unwind label %4

3:
  call void @g(ptr %0) #1
  ret void

4:
  %5 = landingpad { ptr, i32 }
          cleanup
  call void @llvm.lifetime.end.p0(ptr %0) #1
  br label %6

6:
  call void @g(ptr %0) #1
  invoke void @"h i"(ptr %0)
          to label %3 unwind label %4
}

attributes #0 = { minsize }
attributes #1 = { nounwind "x"="y" }
"""


def test_only_calls_that_unwinding_alone_reaches_are_forbidden() -> None:
    changed, count = forbid_unwind_calls(CLEANING_UP)
    new = {line for line in changed.splitlines() if line not in CLEANING_UP.splitlines()}
    assert count == 2
    assert new == {
        "  call void @g(ptr %0) #1000000",
        '  invoke void @"h i"(ptr %0) #1000001',
        'attributes #1000000 = {  nounwind "x"="y"  noinline }',
        "attributes #1000001 = {  noinline }",
    }
    assert changed.count("call void @g(ptr %0) #1\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("gdb") and shutil.which("clang-22")), reason="gdb or clang-22 is not installed")
def test_clangs_own_evictions_make_its_own_object_where_the_rule_does_not() -> None:
    found = plain_evictions.check("builtin", "c/bigint", "clang-22")
    assert found["equal"]
    assert found["others"] == found["unseen"] > 0
    assert not found["astray"]
