"""A worker process is not waited for without a deadline."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.worker_pool import WorkerExitedError


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
