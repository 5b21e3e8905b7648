"""Forks of a waiting clang equal the original, and leave nothing."""

from __future__ import annotations

import os
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation, plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import SnapshotError
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, PRIORITY, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session import snapshot_support as snapshot_support_module
from mlgo_gym.session.protocol.connection import CompileResult
from mlgo_gym.session.protocol.decision import Decision, DecisionSite
from mlgo_gym.session.session import Session
from mlgo_gym.session.snapshot_support import snapshot_support
from mlgo_gym.session.snapshots.ptrace import Tracee
from mlgo_gym.session.snapshots.syscall_abi import syscall_abi
from tests.conftest import MakeBitcode
from tests.fakes import fake_clang
from tests.fakes.no_ptrace import NO_PTRACE
from tests.traces import alive, children, ends_within

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    # Only a prohibition is a reason to skip.
    pytest.mark.skipif("not permitted" in snapshot_support()[1], reason=snapshot_support()[1]),
]

LONG = 30.0
KEEP, INLINE = struct.pack("<q", 0), struct.pack("<q", 1)

Plan = Callable[..., Compilation]


@pytest.fixture(scope="module")
def plan_program(make_bitcode: MakeBitcode) -> Plan:
    known: dict[tuple[str, Toolchain], Compilation] = {}

    def make(program: str, compiler: Toolchain) -> Compilation:
        key = (program, compiler)
        if key not in known:
            known[key] = plan(Module(program, make_bitcode(f"{program}.c", compiler=compiler)), compiler)
        return known[key]

    return make


def test_a_process_that_exited_and_is_not_reaped_is_reported_as_exited() -> None:
    # The kernel's error is the same as where tracing is not permitted.
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    abi = syscall_abi()
    assert abi is not None
    with pytest.raises(SnapshotError, match=f"process {child.pid} exited during the copy"):
        Tracee(child.pid, abi, time.monotonic() + LONG)
    child.wait()


def legal_answer(advisor: Advisor, decision: Decision, chance: random.Random) -> bytes:
    """Return random advice that does not crash clang."""
    if advisor is PRIORITY:
        return struct.pack("<f", chance.uniform(0, 1000))
    if advisor is EVICTION:
        mask = struct.unpack_from("<33q", decision.payload)
        return struct.pack("<q", chance.choice([column for column, legal in enumerate(mask) if legal]))
    return chance.choice([KEEP, INLINE])


def go_on(session: Session, decision: Decision | None, seed: int) -> tuple[list[bytes], CompileResult]:
    """Answer at random to the end; return the advice and the result."""
    chance = random.Random(seed)
    answers = []
    while decision is not None:
        answers.append(legal_answer(session.advisors[decision.advisor], decision, chance))
        session.advise(answers[-1])
        decision = session.wait(LONG)
    return answers, session.finish(LONG)


def replay(command: Sequence[str], advisors: Sequence[Advisor], answers: Sequence[bytes]) -> CompileResult:
    """Replay advice in a new clang, which must request exactly as many decisions."""
    with Session(command, advisors, optimization_record=True) as session:
        for answer in answers:
            assert session.wait(LONG) is not None
            session.advise(answer)
        return session.finish(LONG)


def advance(session: Session, decisions: int) -> tuple[list[bytes], Decision]:
    """Answer some decisions at random; return the advice and the next decision."""
    answers: list[bytes] = []
    chance = random.Random(decisions)
    decision = session.wait(LONG)
    for _ in range(decisions):
        assert decision is not None
        answers.append(legal_answer(session.advisors[decision.advisor], decision, chance))
        session.advise(answers[-1])
        decision = session.wait(LONG)
    assert decision is not None
    return answers, decision


@pytest.fixture
def waiting(compile_calls: Compilation) -> Session:
    """A session at its third decision; the test closes it."""
    session = Session(compile_calls.command, [INLINING])
    advance(session, 2)
    return session


# Copies are exact


@pytest.mark.parametrize("advisors", [[INLINING], [EVICTION], [PRIORITY], ADVISORS], ids=lambda value: value[-1].name)
def test_a_fork_and_its_original_equal_new_clangs_with_the_same_advice(
    any_toolchain: Toolchain, plan_program: Plan, advisors: Sequence[Advisor]
) -> None:
    command = plan_program("mixed", any_toolchain).command
    with Session(command, advisors, optimization_record=True) as session:
        prefix, decision = advance(session, 2)
        with session.fork() as fork:
            ends = [go_on(each, decision, seed) for seed, each in enumerate((session, fork))]
    for answers, compiled in ends:
        assert compiled == replay(command, advisors, prefix + answers)


def test_a_fork_has_the_same_pending_decision_and_the_same_next(waiting: Session) -> None:
    with waiting, waiting.fork() as fork:
        assert fork.header() == waiting.header()
        for session in (waiting, fork):
            session.advise(INLINE)
        assert fork.wait(LONG) == waiting.wait(LONG) != None  # noqa: E711 - a chain


def test_a_fork_in_the_middle_of_a_function_has_its_context(toolchain: Toolchain, plan_program: Plan) -> None:
    with Session(plan_program("mixed", toolchain).command, [PRIORITY]) as session:
        _, decision = advance(session, 1)
        with session.fork() as fork:
            for each in (session, fork):
                each.advise(bytes(4))
            after = [session.wait(LONG), fork.wait(LONG)]
    assert after[0] is not None
    assert after[0].context == decision.context != ""
    assert after[0].site.index == decision.site.index + 1
    assert after[1] == after[0]


def test_the_original_does_not_affect_the_fork(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        decision = session.wait(LONG)
        with session.fork() as fork:
            answers, compiled = go_on(session, decision, 3)
            session.close()
            again, copied = go_on(fork, decision, 3)
    assert len(compiled.object_bytes) > 0
    assert (again, copied) == (answers, compiled)


def test_advisors_whose_channels_open_after_the_fork_are_separate(toolchain: Toolchain, plan_program: Plan) -> None:
    command = plan_program("mixed", toolchain).command
    with Session(command, ADVISORS) as session:
        decision = session.wait(LONG)
        assert decision is not None
        assert session.header(1) is None
        with session.fork() as fork, fork.fork() as forks_fork:
            ends = [go_on(each, decision, 5) for each in (forks_fork, session, fork)]
            headers = [each.header(1) for each in (session, fork, forks_fork)]
    assert headers[0] is not None
    assert headers == [headers[0]] * 3
    assert ends == [ends[0]] * 3


def test_a_session_can_be_forked_after_an_advisor_has_closed_its_channel(
    toolchain: Toolchain, plan_program: Plan
) -> None:
    command = plan_program("mixed", toolchain).command
    with Session(command, ADVISORS, optimization_record=True) as session:
        decision = session.wait(LONG)
        prefix = []
        while decision is not None and decision.advisor == 0:
            session.advise(KEEP)
            prefix.append(KEEP)
            decision = session.wait(LONG)
        assert decision is not None
        with session.fork() as fork:
            answers, compiled = go_on(fork, decision, 9)
            session.kill()
    assert compiled == replay(command, ADVISORS, prefix + answers)


def test_a_warning_before_the_fork_is_in_the_standard_error_of_both(compile_calls: Compilation) -> None:
    echo = (*compile_calls.command, "-mllvm", "-interactive-model-runner-echo-reply")
    with Session(echo, [INLINING]) as session:
        prefix, decision = advance(session, 3)
        with session.fork() as fork:
            answers, compiled = go_on(fork, decision, 1)
            _, other = go_on(session, decision, 1)
    assert compiled.stderr == other.stderr
    assert len(compiled.stderr.splitlines()) == len(prefix + answers)


@pytest.mark.parametrize("advisors", [[INLINING], [EVICTION], [PRIORITY], ADVISORS], ids=lambda value: value[-1].name)
def test_every_leaf_of_a_random_tree_of_forks_equals_its_replay(
    toolchain: Toolchain, plan_program: Plan, advisors: Sequence[Advisor]
) -> None:
    command = plan_program("mixed", toolchain).command
    chance = random.Random(len(advisors))
    leaves: list[tuple[list[bytes], CompileResult]] = []
    forked = [0]

    def grow(session: Session, answers: list[bytes], decision: Decision | None) -> None:
        while decision is not None:
            if forked[0] < 5 and chance.random() < 0.3:
                forked[0] += 1
                with session.fork() as fork:
                    grow(fork, answers.copy(), decision)
            answers.append(legal_answer(session.advisors[decision.advisor], decision, chance))
            session.advise(answers[-1])
            decision = session.wait(LONG)
        leaves.append((answers, session.finish(LONG)))

    with Session(command, advisors, optimization_record=True) as root:
        grow(root, [], root.wait(LONG))
    assert len(leaves) == 6
    for answers, compiled in leaves:
        assert compiled == replay(command, advisors, answers)


# Copies are independent


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_forks_of_forks_are_closed_in_any_order(waiting: Session, order: tuple[int, ...]) -> None:
    sessions = [waiting, waiting.fork()]
    sessions += [sessions[1].fork(), waiting.fork()]
    assert len({session.pid for session in sessions}) == 4
    for closed, position in enumerate(order):
        sessions[position].close()
        assert [alive(sessions[later].pid) for later in order[closed + 1 :]] == [True] * (3 - closed)


def test_a_fork_can_be_made_in_another_thread_than_the_start(waiting: Session) -> None:
    forks: list[Session] = []
    with waiting:
        threads = [threading.Thread(target=lambda: forks.append(waiting.fork())) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        decision = Decision(0, DecisionSite("", 0, 2), b"")
        objects = {go_on(fork, decision, 1)[1].object_bytes for fork in forks}
        for fork in forks:
            fork.close()
    assert len(forks) == 3
    assert len(objects) == 1


def test_threads_can_fork_different_sessions_at_once(compile_calls: Compilation) -> None:
    failures: list[Exception] = []

    def fork_often() -> None:
        try:
            with Session(compile_calls.command, [INLINING]) as session:
                session.wait(LONG)
                for _ in range(20):
                    session.fork().close()
        except Exception as error:  # noqa: BLE001 - the test checks it
            failures.append(error)

    threads = [threading.Thread(target=fork_often) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_fork_leads_its_own_process_group(waiting: Session) -> None:
    with waiting, waiting.fork() as fork:
        assert os.getpgid(fork.pid) == os.getsid(fork.pid) == fork.pid
        assert fork.pid in children()


def test_a_fork_blocks_and_handles_the_signals_that_its_original_does(waiting: Session) -> None:
    def signals(session: Session) -> list[str]:
        status = Path(f"/proc/{session.pid}/status").read_text().splitlines()
        return [line for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]

    with waiting:
        before = signals(waiting)
        with waiting.fork() as fork:
            assert signals(fork) == signals(waiting) == before


def test_a_fork_has_the_cpu_limit_of_its_original(waiting: Session) -> None:
    with waiting, waiting.fork() as fork:
        limits = [Path(f"/proc/{session.pid}/limits").read_text() for session in (waiting, fork)]
    assert limits[0] == limits[1]


def test_a_fork_holds_no_file_of_the_originals(waiting: Session) -> None:
    def own_files(session: Session) -> set[tuple[int, int]]:
        entries = Path(f"/proc/{session.pid}/fd").iterdir()
        statuses = [entry.stat() for entry in entries if 1 <= int(entry.name) <= 3 or ".in" in str(entry.readlink())]
        return {(status.st_dev, status.st_ino) for status in statuses}

    with waiting, waiting.fork() as fork:
        assert len(own_files(fork)) == len(own_files(waiting)) == 4
        assert not own_files(fork) & own_files(waiting)


# Nothing is left


def test_hundreds_of_forks_take_no_more_memory_than_the_first(waiting: Session) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with waiting:
        for _ in range(50):
            waiting.fork().close()
        before = resident()
        for _ in range(250):
            waiting.fork().close()
        assert resident() - before < 1 << 20


def test_a_collected_fork_leaves_nothing(waiting: Session) -> None:
    with waiting:
        pid = waiting.fork().pid
        assert ends_within(pid, 1)


HOST = """
import sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.snapshots.ptrace import Tracee
from mlgo_gym.session.session import Session
session = Session(sys.argv[1:], [INLINING])
session.wait(30)
forks = [session.fork() for _ in range(3)]
forks.append(forks[0].fork())
forks[1].advise(bytes(8))
forks[1].wait(30)
print(*(each.pid for each in (session, *forks)), flush=True)
sys.stdin.read()
"""


def test_forks_end_with_a_host_that_is_killed(compile_calls: Compilation) -> None:
    program = [sys.executable, "-c", HOST, *compile_calls.command]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        pids = [int(word) for word in running.stdout.readline().split()]
        assert len(pids) == 5
        assert all(alive(pid) for pid in pids)
        running.kill()
        assert all(ends_within(pid, LONG) for pid in pids)


# Processes that cannot be copied


def test_a_session_without_a_pending_decision_is_not_forked(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        with pytest.raises(SnapshotError, match="expected a pending decision"):
            session.fork()
        assert session.wait(LONG) is not None
        session.advise(KEEP)
        with pytest.raises(SnapshotError, match="expected a pending decision"):
            session.fork()


def test_a_closed_session_is_not_forked(waiting: Session) -> None:
    waiting.close()
    with pytest.raises(SnapshotError, match="expected a pending decision"):
        waiting.fork()


def test_a_clang_that_was_killed_is_not_forked(waiting: Session) -> None:
    with waiting:
        os.kill(waiting.pid, signal.SIGKILL)
        assert ends_within(waiting.pid, 1)
        with pytest.raises(SnapshotError, match="SIGKILL"):
            waiting.fork()


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
import os, sys, threading
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
    return Session([sys.executable, "-I", "-S", "-c", PROGRAM.format(odd=odd, end=end)], [INLINING])


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
        assert session.wait(LONG) is not None
        with pytest.raises(SnapshotError, match=complaint):
            session.fork()
        assert not is_traced(session.pid)
        session.advise(INLINE)
        assert session.finish(LONG).object_bytes == INLINE


def test_descriptors_with_gaps_between_them_are_copied_to_their_numbers() -> None:
    gaps = "os.dup2(advice, 40); os.close(advice); advice = 40; os.dup2(log, 30); os.close(log); log = 30"
    with odd_program(gaps) as session:
        assert session.wait(LONG) is not None
        with session.fork() as fork:
            numbers = [sorted(os.listdir(f"/proc/{each.pid}/fd")) for each in (session, fork)]  # noqa: PTH208
            fork.advise(KEEP)
            assert fork.finish(LONG).object_bytes == KEEP
        session.advise(INLINE)
        assert session.finish(LONG).object_bytes == INLINE
    assert numbers[0] == numbers[1]


def test_output_before_the_fork_is_in_both_objects_once() -> None:
    with odd_program("os.write(1, b'before '); os.write(2, b'words ')", "os.write(2, b'more')") as session:
        assert session.wait(LONG) is not None
        with session.fork() as fork:
            for each, answer in ((session, KEEP), (fork, INLINE)):
                each.advise(answer)
                compiled = each.finish(LONG)
                assert compiled.object_bytes == b"before " + answer
                assert compiled.stderr == "words more"


def test_a_stopped_program_stays_stopped_and_is_not_copied() -> None:
    with odd_program("") as session:
        assert session.wait(LONG) is not None
        os.kill(session.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, session.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(SnapshotError, match="SIGCONT"):
            session.fork()
        assert not is_traced(session.pid)
        os.kill(session.pid, signal.SIGCONT)
        with session.fork() as fork:
            fork.advise(INLINE)
            assert fork.finish(LONG).object_bytes == INLINE


def test_a_signal_that_the_program_handles_disturbs_no_fork() -> None:
    handler = "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)"
    with odd_program(handler) as session:
        assert session.wait(LONG) is not None
        for _ in range(20):
            os.kill(session.pid, signal.SIGUSR1)
            with session.fork() as fork:
                fork.advise(INLINE)
                assert fork.finish(LONG).object_bytes == INLINE
        session.advise(KEEP)
        assert session.finish(LONG).object_bytes == KEEP


@pytest.mark.parametrize("broken", ["run", "set_registers", "wait_for_interrupt", "_begin_clone", "write_memory"])
def test_an_error_midway_leaves_no_copy_and_the_original_continues(
    waiting: Session, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    original, before = getattr(Tracee, broken), children()

    def fail(tracee: Tracee, *arguments: object) -> object:
        if tracee.pid == waiting.pid and broken != "_begin_clone":
            return original(tracee, *arguments)
        raise OSError(5, "made up")

    with waiting:
        with monkeypatch.context() as patched:
            patched.setattr(Tracee, broken, fail)
            with pytest.raises(SnapshotError, match="made up"):
                waiting.fork()
        assert children() <= before
        assert not is_traced(waiting.pid)
        with waiting.fork() as fork:
            decision = Decision(0, DecisionSite("", 0, 2), b"")
            assert go_on(fork, decision, 1) == go_on(waiting, decision, 1)


def test_a_fork_without_free_descriptors_is_an_error_that_leaves_nothing(waiting: Session) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with waiting:
        before = children()
        for room in range(8):
            spare = os.open(os.devnull, os.O_RDONLY)
            os.close(spare)
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare + room, hard))
            try:
                with pytest.raises(SnapshotError, match="Too many open files"):
                    waiting.fork()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert children() <= before
        waiting.fork().close()


# Where ptrace is denied


def without_ptrace(program: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", NO_PTRACE + program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_support_message_names_a_filter_that_denies_ptrace() -> None:
    output = without_ptrace(
        "from mlgo_gym.session.snapshot_support import snapshot_support; print(*snapshot_support())"
    )
    assert output.startswith("False ")
    assert "Operation not permitted" in output
    assert "SYS_PTRACE" in output


def test_a_denied_fork_leaves_the_session_as_it_was(compile_calls: Compilation) -> None:
    program = """
import sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.snapshots.ptrace import Tracee
from mlgo_gym.session.session import Session
with Session(sys.argv[1:], [INLINING]) as session:
    session.wait(30)
    try:
        session.fork()
    except SnapshotError as error:
        print(error)
    session.advise(bytes(8))
    print(session.wait(30).site.index)
"""
    output = without_ptrace(program, *compile_calls.command)
    assert "Operation not permitted" in output
    assert output.splitlines()[-1] == "1"


def test_support_is_tested_once() -> None:
    snapshot_support()
    misses = snapshot_support_module._test.cache_info().misses
    snapshot_support()
    assert snapshot_support_module._test.cache_info().misses == misses
