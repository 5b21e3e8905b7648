"""`mlgo-gym evaluate` gets SIGKILL at random moments and resumes: its table is that of an uninterrupted run."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
PR_SET_CHILD_SUBREAPER = 36
MAX_SECONDS, MAX_COMPILER_SECONDS = 30.0, 10.0
"""Seconds after a kill in which all processes, and compilers, must end."""

LATE = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "default_worker.py")
"""Ray's agents and starting workers try for a minute to reach the dead cluster, without CPU time."""


@pytest.fixture
def adopts() -> Iterator[None]:
    """Let this process adopt those whose parent dies."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants(before: set[int]) -> dict[int, list[str]]:
    """Return the command lines of the processes below this one; reap those that have ended."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            if state in "ZX" and int(parent) == os.getpid():
                os.waitpid(int(file.parent.name), os.WNOHANG)
            elif state not in "ZX":
                children.setdefault(int(parent), []).append(int(file.parent.name))
    found: dict[int, list[str]] = {}
    pending = [os.getpid()]
    while pending:
        for pid in set(children.get(pending.pop(), [])) - before:
            pending.append(pid)
            with contextlib.suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return {pid: words for pid, words in found.items() if not any(late in " ".join(words[:2]) for late in LATE)}


def wait_for_ends(before: set[int]) -> None:
    start = time.monotonic()
    while running := descendants(before):
        seconds = time.monotonic() - start
        compilers = [words for words in running.values() if "-cc1" in words]
        assert seconds < (MAX_COMPILER_SECONDS if compilers else MAX_SECONDS), [*running.values()]
        time.sleep(0.05)


def outcome(output: Path, copy: Path) -> tuple[dict[tuple[str, str], Any], str]:
    """Return each episode by policy and module, and the printed table; all times are zero."""
    lines = [json.loads(line) for line in (output / "episodes.jsonl").read_text().splitlines()]
    lines = [{**line, "seconds": 0.0, "policy_seconds": 0.0} for line in lines]
    shutil.copytree(output, copy)
    (copy / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = subprocess.run([PROGRAM, "report", copy], capture_output=True, text=True, check=True)
    return {(line["policy"], line["module"]): line for line in lines}, report.stdout.replace(str(copy), "")


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("execution", "kills"),
    [
        (["--jobs", "1"], 4),
        (["--jobs", "2"], 4),
        pytest.param(["--jobs", "2", "--ray", "local"], 2, marks=pytest.mark.libraries),
    ],
    ids=["one process", "two", "ray"],
)
def test_a_killed_and_resumed_evaluation_gives_the_table_of_an_uninterrupted_one(
    execution: list[str], kills: int, varied: str, tmp_path: Path, adopts: None
) -> None:
    if "--ray" in execution and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    policies = "default,never,always,random,clang:-mllvm,-inline-threshold=5"
    command = [str(PROGRAM), "evaluate", "mlgo/Inline-v0", "--corpus", varied, "--policy", policies, *execution]
    chance, before = random.Random(0), set(descendants(set()))
    for name in ("filling the cache", "expected"):
        start = time.monotonic()
        subprocess.run([*command, "--output", tmp_path / name], check=True, capture_output=True)
        seconds = time.monotonic() - start
    expected, killed, number = outcome(tmp_path / "expected", tmp_path / "expected again"), 0, 0
    while killed < kills:
        process = subprocess.Popen(
            [*command, "--output", tmp_path / str(number)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert process.wait(chance.uniform(0.05, 1.05) * seconds) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            wait_for_ends(before)
        else:
            number += 1
    subprocess.run([*command, "--output", tmp_path / str(number)], check=True, capture_output=True)
    for finished in range(number + 1):
        assert outcome(tmp_path / str(finished), tmp_path / f"{finished} again") == expected
