"""A clang without a CPU does not count as silent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from mlgo_gym.compiler.limits import Starvation, cpu_wait_seconds
from mlgo_gym.compiler.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ENDLESS = ("/bin/sh", "-c", "while :; do :; done")


@pytest.fixture
def busy() -> Iterator[None]:
    """Nine processes that compute on the one CPU of this test."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    # In sessions of their own, since the kernel may share a CPU among sessions.
    processes = [subprocess.Popen(ENDLESS, start_new_session=True) for _ in range(9)]
    yield
    for process in processes:
        process.kill()
    os.sched_setaffinity(0, allowed)
    for process in processes:
        process.wait()


@pytest.mark.usefixtures("busy")
def test_grace_is_the_time_waited_since_the_last_call_and_at_most_the_timeout() -> None:
    starved = subprocess.Popen(ENDLESS)
    try:
        until = time.monotonic() + 30
        while cpu_wait_seconds(starved.pid) < 0.05:
            assert time.monotonic() < until
        os.kill(starved.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, starved.pid, os.WSTOPPED)
        waited, counter = cpu_wait_seconds(starved.pid), Starvation()
        assert counter.grace(starved.pid, 2 * waited) == waited
        assert counter.grace(starved.pid, 2 * waited) == 0
        assert Starvation().grace(starved.pid, waited / 2) == waited / 2
        assert Starvation().grace(starved.pid, 11 * waited) == 0
    finally:
        starved.kill()
        starved.wait()
    assert cpu_wait_seconds(starved.pid) == 0


@pytest.mark.usefixtures("busy")
def test_a_starved_clang_gets_more_time() -> None:
    # A tenth of a second of computing takes ten times as long beside nine others.
    with Session(["/bin/sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done"]) as session:
        assert session.finish(0.3).object_bytes == b"done\n"
