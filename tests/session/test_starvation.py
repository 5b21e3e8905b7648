"""A clang without a CPU does not count as silent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process.starvation import Starvation, cpu_wait_seconds
from mlgo_gym.session.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ENDLESS = ("/bin/sh", "-c", "while :; do :; done")


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes on the one CPU of this test."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    process = subprocess.Popen(ENDLESS)
    yield process
    os.sched_setaffinity(0, allowed)
    process.kill()
    process.wait()


def test_grace_is_the_time_waited_since_the_last_call_and_at_most_the_timeout(busy: subprocess.Popen[bytes]) -> None:
    starved = subprocess.Popen(ENDLESS)
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
    starved.kill()
    starved.wait()
    assert cpu_wait_seconds(starved.pid) == 0


def test_a_starved_clang_gets_more_time(busy: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    with Session(ENDLESS, [INLINING]) as session, pytest.raises(CompilerError, match=r"within 0\.1 s"):
        session.wait(0.1)
    # Grace is more than a tenth of the timeout.
    assert time.monotonic() - started > 0.11
