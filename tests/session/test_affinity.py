"""Host and clang on one processor while decisions come quickly, and free otherwise."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session import affinity
from mlgo_gym.session.affinity import BURST_SECONDS, SharedAffinity
from mlgo_gym.session.forkable_session import ForkableSession

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.fixture
def everywhere() -> set[int]:
    """The processors that this thread may use; at least two."""
    found = os.sched_getaffinity(0)
    if len(found) < 2:
        pytest.skip("there is one processor")
    return found


@pytest.fixture
def asked(compile_calls: Compilation) -> Iterator[ForkableSession]:
    """A session that waits with its second decision."""
    with ForkableSession(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        session.advise(bytes(8))
        assert session.wait(LONG) is not None
        yield session


def silent_pipe() -> tuple[select.poll, int, int]:
    read_end, write_end = os.pipe()
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    return poll, read_end, write_end


def test_before_the_first_decision_clang_runs_where_it_likes(compile_calls: Compilation, everywhere: set[int]) -> None:
    with ForkableSession(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        assert os.sched_getaffinity(session.pid) == everywhere


def test_the_host_is_bound_only_while_it_waits(asked: ForkableSession, everywhere: set[int]) -> None:
    asked.advise(bytes(8))
    while asked.wait(LONG) is not None:
        assert os.sched_getaffinity(0) == everywhere
        asked.advise(bytes(8))
    assert os.sched_getaffinity(0) == everywhere


def test_clang_shares_the_processor_of_a_waiting_host(
    asked: ForkableSession, everywhere: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    core = max(everywhere)
    monkeypatch.setattr(affinity, "_current_core", lambda: lambda: core)
    sharing = SharedAffinity(asked.pid)
    poll, *ends = silent_pipe()
    os.write(ends[1], b"ready")
    sharing.wait(poll, LONG)
    assert os.sched_getaffinity(asked.pid) == {core}
    assert os.sched_getaffinity(0) == everywhere
    sharing.release()
    assert os.sched_getaffinity(asked.pid) == everywhere
    for end in ends:
        os.close(end)


def test_a_clang_that_computes_for_long_is_let_go(asked: ForkableSession, everywhere: set[int]) -> None:
    sharing = SharedAffinity(asked.pid)
    poll, *ends = silent_pipe()
    waited: list[float] = []

    def wait(milliseconds: float) -> list[tuple[int, int]]:
        waited.append(milliseconds)
        return poll.poll(milliseconds)

    sharing.wait(Mock(poll=wait), 5 * BURST_SECONDS)
    assert sum(waited) == pytest.approx(5 * BURST_SECONDS * 1000)
    assert os.sched_getaffinity(asked.pid) == os.sched_getaffinity(0) == everywhere
    for end in ends:
        os.close(end)


def test_a_copy_runs_where_it_likes(asked: ForkableSession, everywhere: set[int]) -> None:
    with asked.fork() as fork:
        assert os.sched_getaffinity(fork.pid) == everywhere
        assert os.sched_getaffinity(asked.pid) == everywhere


def test_where_nothing_may_be_bound_waiting_is_plain_waiting(
    compile_calls: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, mask: set[int]) -> None:
        raise PermissionError(1, f"process {pid} may not be bound to {mask}")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with ForkableSession(compile_calls.command, [INLINING]) as session:
        decisions = 0
        while session.wait(LONG) is not None:
            session.advise(bytes(8))
            decisions += 1
    assert decisions == 9
