"""Host and clang share a CPU while decisions follow quickly, and run anywhere otherwise."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process import affinity
from mlgo_gym.session.process.affinity import BURST_SECONDS, SharedAffinity
from mlgo_gym.session.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.fixture
def allowed() -> set[int]:
    """The CPUs that this thread may use; at least two."""
    found = os.sched_getaffinity(0)
    if len(found) < 2:
        pytest.skip("there is one processor")
    return found


@pytest.fixture
def asked(compile_calls: Compilation) -> Iterator[Session]:
    """A session at its second decision."""
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        session.advise(bytes(8))
        assert session.wait(LONG) is not None
        yield session


def silent_pipe() -> tuple[select.poll, int, int]:
    read_end, write_end = os.pipe()
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    return poll, read_end, write_end


def test_before_the_first_decision_clang_is_not_pinned(compile_calls: Compilation, allowed: set[int]) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        assert os.sched_getaffinity(session.pid) == allowed


def test_the_host_is_pinned_only_while_it_waits(asked: Session, allowed: set[int]) -> None:
    asked.advise(bytes(8))
    while asked.wait(LONG) is not None:
        assert os.sched_getaffinity(0) == allowed
        asked.advise(bytes(8))
    assert os.sched_getaffinity(0) == allowed


def test_clang_shares_the_cpu_of_a_waiting_host(
    asked: Session, allowed: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    core = max(allowed)
    monkeypatch.setattr(affinity, "_current_cpu", lambda: lambda: core)
    sharing = SharedAffinity(asked.pid)
    poll, *ends = silent_pipe()
    os.write(ends[1], b"ready")
    sharing.wait(poll, LONG)
    assert os.sched_getaffinity(asked.pid) == {core}
    assert os.sched_getaffinity(0) == allowed
    sharing.release()
    assert os.sched_getaffinity(asked.pid) == allowed
    for end in ends:
        os.close(end)


def test_a_clang_that_computes_for_long_is_unpinned(asked: Session, allowed: set[int]) -> None:
    sharing = SharedAffinity(asked.pid)
    poll, *ends = silent_pipe()
    waited: list[float] = []

    def wait(milliseconds: float) -> list[tuple[int, int]]:
        waited.append(milliseconds)
        return poll.poll(milliseconds)

    sharing.wait(Mock(poll=wait), 5 * BURST_SECONDS)
    assert sum(waited) == pytest.approx(5 * BURST_SECONDS * 1000)
    assert os.sched_getaffinity(asked.pid) == os.sched_getaffinity(0) == allowed
    for end in ends:
        os.close(end)


def test_a_copy_is_not_pinned(asked: Session, allowed: set[int]) -> None:
    with asked.fork() as fork:
        assert os.sched_getaffinity(fork.pid) == allowed
        assert os.sched_getaffinity(asked.pid) == allowed


def test_waiting_works_where_threads_cannot_be_pinned(
    compile_calls: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, mask: set[int]) -> None:
        raise PermissionError(1, f"process {pid} may not be bound to {mask}")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with Session(compile_calls.command, [INLINING]) as session:
        decisions = 0
        while session.wait(LONG) is not None:
            session.advise(bytes(8))
            decisions += 1
    assert decisions == 9
