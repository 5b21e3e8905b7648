"""Host and clang share a CPU while decisions follow quickly, and run anywhere otherwise."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process.affinity import BURST_SECONDS, SharedAffinity
from mlgo_gym.session.session import Session
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


@pytest.fixture
def session(compile_calls: Compilation) -> Iterator[Session]:
    """A session at its second decision."""
    with Session(compile_calls.command, [INLINING]) as started:
        assert started.wait(LONG) is not None
        started.advise(bytes(8))
        assert started.wait(LONG) is not None
        yield started


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def count_decisions(session: Session) -> int:
    decisions = 0
    while session.wait(LONG) is not None:
        session.advise(bytes(8))
        decisions += 1
    return decisions


def test_the_host_is_pinned_only_while_it_waits(session: Session, allowed: set[int]) -> None:
    session.advise(bytes(8))
    while session.wait(LONG) is not None:
        assert os.sched_getaffinity(0) == allowed
        session.advise(bytes(8))
    assert os.sched_getaffinity(0) == allowed


def test_clang_shares_a_cpu_until_it_computes_for_long(
    session: Session, allowed: set[int], pipe: tuple[int, int]
) -> None:
    with session.fork() as clang:
        sharing, poll = SharedAffinity(clang.pid), select.poll()
        poll.register(pipe[0], select.POLLIN)
        assert os.sched_getaffinity(clang.pid) == allowed
        os.write(pipe[1], b"ready")
        sharing.wait(poll, LONG)
        assert len(os.sched_getaffinity(clang.pid)) == 1
        assert os.sched_getaffinity(0) == allowed
        sharing.release()
        assert os.sched_getaffinity(clang.pid) == allowed
        sharing.wait(poll, LONG)
        assert len(os.sched_getaffinity(clang.pid)) == 1
        os.read(pipe[0], 100)
        sharing.wait(poll, 2 * BURST_SECONDS)
        assert os.sched_getaffinity(clang.pid) == os.sched_getaffinity(0) == allowed


def test_neither_a_new_clang_nor_a_copy_is_pinned(compile_calls: Compilation, allowed: set[int]) -> None:
    with Session(compile_calls.command, [INLINING]) as started:
        assert started.wait(LONG) is not None
        assert os.sched_getaffinity(started.pid) == allowed
        started.advise(bytes(8))
        assert started.wait(LONG) is not None
        with started.fork() as fork:
            assert os.sched_getaffinity(fork.pid) == os.sched_getaffinity(started.pid) == allowed


def test_waiting_works_where_threads_cannot_be_pinned(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as started:
        assert without_system_call("sched_setaffinity", lambda: count_decisions(started)) == 9
