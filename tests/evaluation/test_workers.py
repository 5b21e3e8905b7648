"""Worker processes: what dies is reported, and nothing outlives the evaluation."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate, load_result
from mlgo_gym.scheduling import Execution

FAULTY = str(Path(__file__).with_name("faulty.py"))
PROGRAM = Path(sys.executable).with_name("mlgo-gym")


def test_a_worker_that_dies_is_reported_and_replaced(corpus: Path, nothing_is_left: None) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=[f"{FAULTY}:Deadly"], execution=Execution(2))
    [failure] = result.failures
    assert failure.module == "calls"
    assert failure.error == {
        "kind": "worker",
        "message": "the worker process died: signal 9 (SIGKILL)",
        "exit_status": -9,
    }
    assert result.summaries()[0].modules == 1
    assert result.without_decisions == ["leaf"]


def test_workers_that_cannot_start_are_an_error(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> None:
    monkeypatch.setenv("MLGO_TEST_PARENT", str(os.getpid()))
    with pytest.raises(MlgoError, match="exit status 3 before its first item"):
        evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=[f"{FAULTY}:Stillborn"], execution=Execution(2))


def test_a_policy_that_cannot_be_sent_is_an_error(corpus: Path) -> None:
    class Local:
        def act(self, observation: Any, info: Any) -> int:
            return 0

    with pytest.raises(MlgoError, match="name them by specification, or use jobs=1"):
        evaluate("mlgo/Inline-v0", corpus=str(corpus), policies={"local": Local()}, execution=Execution(2))


@pytest.mark.parametrize("last_signal", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_an_evaluation_that_is_ended(
    corpus: Path, tmp_path: Path, last_signal: signal.Signals
) -> None:
    output, asked = tmp_path / "results", tmp_path / "asked"
    command = ["evaluate", "mlgo/Inline-v0", "--corpus", str(corpus), "--policy", f"{FAULTY}:Endless"]
    process = subprocess.Popen(
        [str(PROGRAM), *command, "--jobs", "2", "--envs", "1", "--output", str(output)],
        env={**os.environ, "MLGO_TEST_ASKED": str(asked)},
        start_new_session=True,
        # A shell's background job, which this test may be part of, ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: asked.exists() and finished(output) == 2)
        assert len(marked(asked)) >= 4  # the program, its two workers, and the clang that waits for the policy
        # What a terminal does at Ctrl-C: every process of the group gets the signal.
        if last_signal is signal.SIGINT:
            os.killpg(process.pid, last_signal)
        else:
            process.send_signal(last_signal)
        out, err = process.communicate(timeout=60)
        until(lambda: marked(asked) == [])
    finally:
        process.kill()
        process.communicate()
    assert finished(output) == 2
    if last_signal is signal.SIGINT:
        assert process.returncode == 130
        # Before it, where that took long, is a line of progress.
        last = err.splitlines()[-1]
        assert re.fullmatch(r"mlgo-gym: interrupted with [12] episodes left; the same command continues", last)
        assert "modules" in out


def finished(output: Path) -> int:
    return len(load_result(output).episodes)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def marked(asked: Path) -> list[int]:
    """Return the living processes that have inherited the environment of the test's program."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MLGO_TEST_ASKED={asked}".encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found
