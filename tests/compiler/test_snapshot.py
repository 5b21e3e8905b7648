"""Forks of a waiting clang equal the original, and leave nothing."""

import os
import random
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.ptrace import Tracee
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.errors import SnapshotError
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, PRIORITY, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode, limited
from tests.fakes.fake_clang import fake_clang
from tests.traces import alive, children, ends_within

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    # Nothing else is a reason to skip.
    pytest.mark.skipif("not permitted" in snapshot_support()[1], reason=snapshot_support()[1]),
]

LONG = 30.0
KEEP, INLINE = struct.pack("<q", 0), struct.pack("<q", 1)


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode, toolchain: Toolchain) -> tuple[str, ...]:
    """The command for a module with decisions of every kind."""
    return plan(Module("mixed", make_bitcode("mixed.c")), toolchain).command


def legal_answer(advisor: Advisor, decision: Decision, chance: random.Random) -> bytes:
    """Return random advice that does not crash clang."""
    if advisor is PRIORITY:
        return struct.pack("<f", chance.uniform(0, 1000))
    if advisor is EVICTION:
        mask = struct.unpack_from("<33q", decision.payload)
        return struct.pack("<q", chance.choice([column for column, legal in enumerate(mask) if legal]))
    return chance.choice([KEEP, INLINE])


def answer_all(
    session: Session, decision: Decision | None, seed: int
) -> tuple[list[DecisionSite], list[bytes], CompileResult]:
    """Answer at random to the end; return the sites, the advice and the result."""
    chance = random.Random(seed)
    sites, answers = [], []
    while decision is not None:
        sites.append(decision.site)
        answers.append(legal_answer(session.advisors[decision.advisor], decision, chance))
        session.advise(answers[-1])
        decision = session.wait(LONG)
    return sites, answers, session.finish(LONG)


def replay(command: Sequence[str], advisors: Sequence[Advisor], answers: Sequence[bytes]) -> CompileResult:
    """Replay advice in a new clang, which must request exactly as many decisions."""
    with Session(command, advisors, optimization_record=True) as session:
        for answer in answers:
            assert session.wait(LONG) is not None
            session.advise(answer)
        return session.finish(LONG)


@pytest.fixture
def waiting(compile_calls: Compilation) -> Session:
    """A session at its third decision; the test closes it."""
    session = Session(compile_calls.command, [INLINING])
    for _ in range(2):
        assert session.wait(LONG) is not None
        session.advise(KEEP)
    assert session.wait(LONG) is not None
    return session


# Copies are exact


@pytest.mark.parametrize("advisors", [[INLINING], [EVICTION], [PRIORITY], ADVISORS], ids=lambda value: value[-1].name)
def test_leaves_equal_replays(any_toolchain: Toolchain, make_bitcode: MakeBitcode, advisors: Sequence[Advisor]) -> None:
    command = plan(Module("mixed", make_bitcode("mixed.c", compiler=any_toolchain)), any_toolchain).command
    chance = random.Random(len(advisors))
    leaves: list[tuple[list[bytes], CompileResult]] = []
    forks = [0]

    def grow(session: Session, answers: list[bytes], decision: Decision | None) -> None:
        while decision is not None:
            if forks[0] < 4 and chance.random() < 0.3:
                forks[0] += 1
                with session.fork() as fork:
                    grow(fork, answers.copy(), decision)
            answers.append(legal_answer(session.advisors[decision.advisor], decision, chance))
            session.advise(answers[-1])
            decision = session.wait(LONG)
        leaves.append((answers, session.finish(LONG)))

    with Session(command, advisors, optimization_record=True) as root:
        grow(root, [], root.wait(LONG))
    assert len(leaves) == 5
    assert len({compiled.object_bytes for _, compiled in leaves}) > 1
    for answers, compiled in leaves:
        assert compiled == replay(command, advisors, answers)


def test_a_fork_outlives_an_original_whose_advisor_has_closed_its_channel(mixed: tuple[str, ...]) -> None:
    with Session(mixed, ADVISORS, optimization_record=True) as session:
        decision = session.wait(LONG)
        prefix = []
        while decision is not None and decision.advisor == 0:
            session.advise(KEEP)
            prefix.append(KEEP)
            decision = session.wait(LONG)
        assert decision is not None
        with session.fork() as fork:
            session.close()
            _, answers, compiled = answer_all(fork, decision, 9)
    assert compiled == replay(mixed, ADVISORS, prefix + answers)


# Copies are independent


def test_forks_of_forks_are_closed_in_any_order(compile_calls: Compilation) -> None:
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        sessions = [Session(compile_calls.command, [INLINING])]
        assert sessions[0].wait(LONG) is not None
        sessions += [sessions[0].fork()]
        sessions += [sessions[1].fork(), sessions[0].fork()]
        assert len({session.pid for session in sessions}) == 4
        for closed, position in enumerate(order):
            sessions[position].close()
            assert [alive(sessions[later].pid) for later in order[closed + 1 :]] == [True] * (3 - closed)


def test_threads_can_fork_at_once_and_a_collected_fork_ends(waiting: Session, compile_calls: Compilation) -> None:
    def fork_often() -> None:
        with Session(compile_calls.command, [INLINING]) as session:
            session.wait(LONG)
            for _ in range(10):
                session.fork().close()

    with waiting, ThreadPoolExecutor(3) as pool:
        pool.submit(waiting.fork).result().close()
        for done in [pool.submit(fork_often) for _ in range(3)]:
            done.result()
        pid = waiting.fork().pid
        assert ends_within(pid, 10)


def test_a_fork_has_the_signals_and_limits_of_its_original_and_none_of_its_files(waiting: Session) -> None:
    def signals(session: Session) -> list[str]:
        status = Path(f"/proc/{session.pid}/status").read_text().splitlines()
        return [line for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]

    def own_files(session: Session) -> set[tuple[int, int]]:
        entries = Path(f"/proc/{session.pid}/fd").iterdir()
        statuses = [entry.stat() for entry in entries if 1 <= int(entry.name) <= 3 or ".in" in str(entry.readlink())]
        return {(status.st_dev, status.st_ino) for status in statuses}

    with waiting:
        before = signals(waiting)
        with waiting.fork() as fork:
            assert signals(fork) == signals(waiting) == before
            limits = [Path(f"/proc/{session.pid}/limits").read_text() for session in (waiting, fork)]
            assert limits[0] == limits[1]
            assert len(own_files(fork)) == len(own_files(waiting)) == 4
            assert not own_files(fork) & own_files(waiting)
            # It leads a process group of its own.
            assert os.getpgid(fork.pid) == os.getsid(fork.pid) == fork.pid
            assert fork.pid in children()


# Processes that cannot be copied


def test_a_session_without_a_waiting_clang_is_not_forked(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        for answer in (b"", KEEP):
            if answer:
                assert session.wait(LONG) is not None
                session.advise(answer)
            with pytest.raises(SnapshotError, match="expected a pending decision"):
                session.fork()
        assert session.wait(LONG) is not None
        os.kill(session.pid, signal.SIGKILL)
        assert ends_within(session.pid, 10)
        with pytest.raises(SnapshotError, match="SIGKILL"):
            session.fork()
    with pytest.raises(SnapshotError, match="expected a pending decision"):
        session.fork()


def is_traced(pid: int) -> bool:
    return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def test_a_program_that_computes_continues_after_the_deadline() -> None:
    with Session(fake_clang("flood"), [INLINING]) as session:
        assert session.wait(LONG) is not None
        before = children()
        with pytest.raises(SnapshotError, match=r"one that computes|did not stop for its copy in time"):
            session.fork(0.1)
        assert children() <= before
        assert alive(session.pid)
        assert not is_traced(session.pid)


PROGRAM = """
import os, signal, sys, threading
base = next(word.partition("=")[2] for word in sys.argv if "channel-base=" in word)
advice, log = os.open(base + ".in", os.O_RDONLY), os.open(base + ".out", os.O_WRONLY)
tensor = '{{"name":"a","type":"int64_t","port":0,"shape":[1]}}'
header = '{{"features":[%s],"advice":%s}}' % (tensor, tensor)
{odd}
os.write(log, header.encode() + b'\\n{{"context":""}}\\n{{"observation":0}}\\n' + bytes(8) + b"\\n")
os.write(1, os.read(advice, 8))
{end}
"""


def odd_program(odd: str, end: str = "") -> Session:
    session = Session([sys.executable, "-I", "-S", "-c", PROGRAM.format(odd=odd, end=end)], [INLINING])
    assert session.wait(LONG) is not None
    return session


def object_after(session: Session, answer: bytes) -> bytes:
    session.advise(answer)
    return session.finish(LONG).object_bytes


@pytest.mark.parametrize(
    ("odd", "end", "complaint"),
    [
        ("done = threading.Event(); threading.Thread(target=done.wait).start()", "done.set()", "got several"),
        ("kept = os.open('/dev/shm', os.O_TMPFILE | os.O_WRONLY)", "", "which a copy would share"),
        ("kept = os.pipe()", "", "which a copy would share"),
    ],
    ids=["threads", "file", "pipe"],
)
def test_shared_output_and_threads_are_refused_and_the_original_continues(odd: str, end: str, complaint: str) -> None:
    with odd_program(odd, end) as session:
        with pytest.raises(SnapshotError, match=complaint):
            session.fork()
        assert not is_traced(session.pid)
        assert object_after(session, INLINE) == INLINE


def test_a_stopped_program_is_not_copied_and_a_signal_that_is_handled_disturbs_nothing() -> None:
    with odd_program("signal.signal(signal.SIGUSR1, lambda *_: None)") as session:
        os.kill(session.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, session.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(SnapshotError, match="SIGCONT"):
            session.fork()
        assert not is_traced(session.pid)
        os.kill(session.pid, signal.SIGCONT)
        for _ in range(20):
            os.kill(session.pid, signal.SIGUSR1)
            with session.fork() as fork:
                assert object_after(fork, INLINE) == INLINE
        assert object_after(session, KEEP) == KEEP


def test_an_error_midway_leaves_only_the_original(waiting: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    with waiting:
        # No kernel fails in the middle of a copy on demand.
        for broken in ("run", "set_registers", "wait_for_interrupt", "fork", "write_memory"):
            original = getattr(Tracee, broken)

            def fail(tracee: Tracee, *arguments: object, broken: str = broken, original: Any = original) -> object:
                if tracee.pid == waiting.pid and broken != "fork":
                    return original(tracee, *arguments)
                raise OSError(5, "made up")

            with monkeypatch.context() as patched:
                patched.setattr(Tracee, broken, fail)
                with pytest.raises(SnapshotError, match="made up"):
                    waiting.fork()
            assert children() - {waiting.pid} <= before
            assert not is_traced(waiting.pid)
        with waiting.fork() as fork:
            for copied in (waiting, fork):
                copied.advise(KEEP)
            assert answer_all(fork, fork.wait(LONG), 1) == answer_all(waiting, waiting.wait(LONG), 1)


def test_a_fork_without_free_descriptors_is_an_error_that_leaves_nothing(waiting: Session) -> None:
    with waiting:
        before = children()
        for room in range(8):
            spare = os.open(os.devnull, os.O_RDONLY)
            os.close(spare)
            with (
                limited(resource.RLIMIT_NOFILE, spare + room),
                pytest.raises(SnapshotError, match="Too many open files"),
            ):
                waiting.fork()
            assert children() <= before
        waiting.fork().close()
