"""A clang without a CPU does not count as silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import chain, repeat

import pytest

from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process import starvation
from mlgo_gym.session.process.starvation import Starvation, cpu_wait_seconds
from mlgo_gym.session.session import Session
from tests.fakes import fake_clang

pytestmark = pytest.mark.usefixtures("nothing_is_left")

TIMEOUT = 0.1


def test_the_kernel_reports_the_time_that_a_process_waited() -> None:
    core = min(os.sched_getaffinity(0))
    both = [
        subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"])
        for _ in range(2)
    ]
    try:
        until = time.monotonic() + 30
        while not all(cpu_wait_seconds(each.pid) > 0.05 for each in both):
            assert time.monotonic() < until
    finally:
        for each in both:
            each.kill()
            each.wait()
    assert cpu_wait_seconds(both[0].pid) == 0


def test_grace_is_the_time_waited_since_at_most_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([100.0, 103.0, 103.1, 103.1])
    monkeypatch.setattr(starvation, "cpu_wait_seconds", lambda _: next(waits))
    mine = Starvation()
    assert [mine.grace(0, 10.0) for _ in range(4)] == [10.0, pytest.approx(3.0), 0.0, 0.0]


def test_a_starved_clang_gets_more_time_and_a_stuck_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = chain([TIMEOUT, 2 * TIMEOUT], repeat(2 * TIMEOUT))
    monkeypatch.setattr(starvation, "cpu_wait_seconds", lambda _: next(waits))
    begun = time.monotonic()
    with Session(fake_clang("silent"), [INLINING]) as session, pytest.raises(CompilerError, match=r"within 0\.1 s"):
        session.wait(TIMEOUT)
    assert time.monotonic() - begun >= 3 * TIMEOUT
