"""Commands get SIGKILL at random moments and resume: their results are those of an uninterrupted run, times aside."""

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

from tests.conftest import PROGRAMS
from tests.traces import alive, children

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
PR_SET_CHILD_SUBREAPER = 36

KILLS = int(os.environ.get("MLGO_TEST_KILLS", "3"))
"""Number of kills of each command."""

MAX_SECONDS, MAX_COMPILER_SECONDS = 30.0, 10.0
"""Seconds after a kill in which all processes, and compilers, must end."""

TRAINING = """
import sys
from pathlib import Path
from mlgo_gym.training import Labelling, PolicyTraining
from tests.training.test_policy_training import Simple
PolicyTraining(Labelling(sys.argv[1], compiles=3, limit=4), Simple(), 2, (0.5,)).run(Path(sys.argv[3]))
"""
SOURCES = 6
BUILD = f"for i in $(seq {SOURCES}); do $CC -O1 -DN=$i -c calls.c -o $i.o || exit 1; done"

COMMANDS = {
    "evaluate": ("evaluate mlgo/Inline-v0 --jobs 1 --policy default,never,always,random --corpus", "--output"),
    "evaluate in two processes": (
        "evaluate mlgo/Inline-v0 --jobs 2 --policy default,never,random --corpus",
        "--output",
    ),
    "evaluate on Ray": ("evaluate mlgo/Inline-v0 --jobs 2 --ray local --policy default,never --corpus", "--output"),
    "search": ("search mlgo/Inline-v0 --jobs 1 --compiles 8 --corpus", "--output {}/found.jsonl --recipes {}/recipes"),
    "label": ("label --jobs 1 --compiles 4", "--output"),
    "train": ("", "--output"),
    "record": ("corpus record --output", ""),
}
"""Words of the command before the corpus and before the output."""

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
    found: dict[int, list[str]] = {}
    pending = [os.getpid()]
    while pending:
        for pid in children(pending.pop()) - before:
            with contextlib.suppress(OSError):
                if alive(pid):
                    pending.append(pid)
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                else:  # of another process it is no child
                    os.waitpid(pid, os.WNOHANG)
    return {pid: words for pid, words in found.items() if not any(late in " ".join(words[:2]) for late in LATE)}


def wait_for_ends(before: set[int]) -> None:
    start = time.monotonic()
    while running := descendants(before):
        seconds = time.monotonic() - start
        compilers = [words for words in running.values() if "-cc1" in words]
        assert seconds < (MAX_COMPILER_SECONDS if compilers else MAX_SECONDS), [*running.values()]
        time.sleep(0.05)


def command_of(name: str, corpus: str, output: Path) -> list[str]:
    """Return the command with an output."""
    before, after = COMMANDS[name]
    if name == "train":
        return [sys.executable, "-c", TRAINING, corpus, after, str(output)]
    if name == "record":
        return [str(PROGRAM), *before.split(), str(output), "--", "sh", "-c", BUILD]
    outputs = after.format(output, output).split() if "{}" in after else [after, str(output)]
    return [str(PROGRAM), *before.split(), corpus, *outputs]


def without_times(value: Any) -> Any:
    """Return decoded JSON with zeros in place of times."""
    if isinstance(value, dict):
        return {name: 0 if "seconds" in name else without_times(member) for name, member in value.items()}
    return value


def outcome(output: Path) -> dict[str, Any]:
    """Return the contents of each file by its path; of JSON lines, which have any order, the last one of each key."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        name = str(path.relative_to(output))
        if path.suffix == ".jsonl":
            lines = [without_times(json.loads(line)) for line in path.read_text().splitlines()]
            keyed = {f"{line.get('policy', '')} {line.get('module', '')}": line for line in lines}
            found[name] = dict(sorted(keyed.items()))
        elif path.suffix == ".json":
            # The training names its rounds by the folder.
            text = path.read_text().replace(str(output), "OUTPUT")
            found[name] = without_times(json.loads(text))
        else:
            found[name] = path.read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.libraries) if "Ray" in name else name for name in COMMANDS]
)
def test_a_resumed_command_equals_an_uninterrupted_one(name: str, varied: str, tmp_path: Path, adopts: None) -> None:
    if "Ray" in name and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    if name in ("label", "train"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(PROGRAMS / "calls.c", project)
    chance, before = random.Random(0), set(descendants(set()))
    variables = {**os.environ, "PYTHONPATH": str(PROGRAMS.parents[1])}
    printed = tmp_path / "printed"

    def start(output: str) -> subprocess.Popen[bytes]:
        with printed.open("wb") as file:
            command = command_of(name, varied, tmp_path / output)
            return subprocess.Popen(command, cwd=project, env=variables, stdout=file, stderr=file)

    def finish(output: str) -> None:
        assert start(output).wait() == 0, printed.read_text()

    for output in ("first", "expected"):  # the first fills the cache
        begin = time.monotonic()
        finish(output)
        seconds = time.monotonic() - begin
    expected, killed, number = outcome(tmp_path / "expected"), 0, 0
    while killed < KILLS:
        if name == "record" and (tmp_path / str(number)).exists():
            number += 1  # complete when the kill came; another recording refuses to replace it
        process = start(str(number))
        try:
            assert process.wait(chance.uniform(0.05, 1.05) * seconds) == 0, printed.read_text()
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            wait_for_ends(before)
        else:
            number += 1
    if name != "record" or not (tmp_path / str(number)).exists():
        finish(str(number))
    for finished in range(number + 1):
        assert outcome(tmp_path / str(finished)) == expected
