"""Host and clang share a CPU while decisions follow quickly, and run anywhere otherwise."""

from __future__ import annotations

import os
import select

import pytest

from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import BURST_SECONDS, SharedAffinity
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.llvm.advisors import INLINING
from tests.fakes.no_ptrace import without_system_call

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.fixture
def allowed() -> set[int]:
    """The CPUs that this thread may use; at least two."""
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        pytest.skip("there is one processor")
    return cpus


def test_the_host_is_pinned_only_while_it_waits_and_neither_a_new_clang_nor_a_copy_is(
    compile_calls: Compilation, allowed: set[int]
) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        assert os.sched_getaffinity(session.pid) == allowed
        session.advise(bytes(8))
        assert session.wait(LONG) is not None
        with session.fork() as fork:
            assert os.sched_getaffinity(fork.pid) == os.sched_getaffinity(session.pid) == allowed
        session.advise(bytes(8))
        while session.wait(LONG) is not None:
            assert os.sched_getaffinity(0) == allowed
            session.advise(bytes(8))
        assert os.sched_getaffinity(0) == allowed


def test_clang_shares_a_cpu_until_it_computes_for_long(compile_calls: Compilation, allowed: set[int]) -> None:
    reading, writing = os.pipe()
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    with Session(compile_calls.command, [INLINING]) as clang:
        assert clang.wait(LONG) is not None
        sharing = SharedAffinity(clang.pid)
        os.write(writing, b"ready")
        for _ in range(2):
            assert os.sched_getaffinity(clang.pid) == allowed
            sharing.wait(poll, LONG)
            assert len(os.sched_getaffinity(clang.pid)) == 1
            assert os.sched_getaffinity(0) == allowed
            sharing.release()
        sharing.wait(poll, LONG)
        assert len(os.sched_getaffinity(clang.pid)) == 1
        os.read(reading, 100)
        sharing.wait(poll, 2 * BURST_SECONDS)
        assert os.sched_getaffinity(clang.pid) == os.sched_getaffinity(0) == allowed
    os.close(reading)
    os.close(writing)


def test_waiting_works_where_threads_cannot_be_pinned(compile_calls: Compilation) -> None:
    def count_decisions() -> int:
        decisions = 0
        while session.wait(LONG) is not None:
            session.advise(bytes(8))
            decisions += 1
        return decisions

    with Session(compile_calls.command, [INLINING]) as session:
        assert without_system_call("sched_setaffinity", count_decisions) == 9
