"""A worker process does not outlive the process that started it, and is not waited for without a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.worker_pool import WorkerExitedError
from tests.traces import ends_within


class StoppedRunner:
    """Closes the connection of its worker at the first item, and stops the process."""

    def submit(self, item: int) -> None:
        os.closerange(3, 100)
        os.kill(os.getpid(), signal.SIGSTOP)

    def collect(self) -> list[tuple[int, int]]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def start(room: int) -> StoppedRunner:
    return StoppedRunner()


@pytest.mark.slow
def test_a_worker_that_closes_its_connection_and_stays_is_killed() -> None:
    with closing(Processes(start, 1)) as pool:
        worker = pool.start_worker(1)
        assert worker.receive() == []
        worker.send([1])
        with pytest.raises(WorkerExitedError, match="signal 9"):
            worker.receive()
        worker.stop(0)


PROGRAM = """
import multiprocessing, os, signal
from mlgo_gym.scheduling.processes import die_with_parent

def work(pipe):
    die_with_parent()
    pipe.send(os.getpid())
    signal.pause()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=work, args=(theirs,)).start()
    print(ours.recv(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == -9
    assert ends_within(int(result.stdout), 10)
