"""One running clang: its decisions, its result, and its failures."""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation, plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import ADVISORS, INLINING, PRIORITY
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.protocol.connection import CompileResult
from mlgo_gym.session.protocol.decision import Decision
from mlgo_gym.session.protocol.standard_error import TAIL_BYTES
from mlgo_gym.session.session import Session
from tests.conftest import MakeBitcode
from tests.fakes import fake_clang
from tests.traces import alive, ends_within, scratch_folders, traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0
KEEP, INLINE = struct.pack("<q", 0), struct.pack("<q", 1)


def default(decision: Decision) -> bytes:
    return decision.payload[-8:]


def drive(session: Session, choose: Callable[[Decision], bytes] = default) -> tuple[list[Decision], CompileResult]:
    decisions = []
    while (decision := session.wait(LONG)) is not None:
        decisions.append(decision)
        session.advise(choose(decision))
    return decisions, session.finish(LONG)


def plain(compilation: Compilation) -> bytes:
    with Session(compilation.command) as session:
        return session.finish(LONG).object_bytes


def source_command(toolchain: Toolchain, source: Path) -> tuple[str, ...]:
    """Return a command that compiles C, for errors of the front end."""
    return (*toolchain.command, "-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-x", "c", str(source))


def failure_of(command: Sequence[str], within: float = LONG) -> CompilerError:
    with Session(command, [INLINING]) as session, pytest.raises(CompilerError) as caught:
        drive_until_end(session, within)
    return caught.value


def drive_until_end(session: Session, timeout: float) -> None:
    while (decision := session.wait(timeout)) is not None:
        session.advise(default(decision))
    session.finish(timeout)


# A successful compile


def test_clang_requests_its_decisions_in_order_and_writes_an_object(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.header() is None
        decisions, compiled = drive(session)
        header = session.header()
    assert header is not None
    assert [decision.site.index for decision in decisions] == list(range(9))
    assert {(decision.advisor, decision.context) for decision in decisions} == {(0, "")}
    assert {len(decision.payload) for decision in decisions} == {header.observation_bytes}
    assert object_sizes(compiled.object_bytes).text > 0


def test_default_actions_give_the_object_of_a_plain_compile(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        _, compiled = drive(session)
    assert compiled.object_bytes == plain(compile_calls)


def test_every_clang_reads_advice(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    compilation = plan(Module("calls", make_bitcode("calls.c", compiler=any_toolchain)), any_toolchain)
    objects = set()
    for answer in (KEEP, INLINE):
        with Session(compilation.command, [INLINING]) as session:
            decisions, compiled = drive(session, lambda _, answer=answer: answer)  # type: ignore[misc]
        assert len(decisions) == 9
        objects.add(compiled.object_bytes)
    assert len(objects) == 2


def test_a_session_without_advisors_is_a_plain_compile(compile_calls: Compilation, tmp_path: Path) -> None:
    path = tmp_path / "alone.o"
    compile_calls.toolchain.run([*compile_calls.flags, *compile_calls.inputs, "-o", str(path)])
    assert plain(compile_calls) == path.read_bytes()


def test_other_advice_gives_another_object(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        _, compiled = drive(session, lambda _: KEEP)
    assert compiled.object_bytes != plain(compile_calls)


def test_a_module_without_decisions(leaf: Path, toolchain: Toolchain) -> None:
    with Session(plan(Module("leaf", leaf), toolchain).command, [INLINING]) as session:
        decisions, compiled = drive(session)
    assert decisions == []
    assert object_sizes(compiled.object_bytes).text > 0


def test_three_advisors_in_one_compile(toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    compilation = plan(Module("pressure", make_bitcode("many_calls.c")), toolchain)

    def answer(decision: Decision) -> bytes:
        if ADVISORS[decision.advisor] is INLINING:
            return default(decision)
        if ADVISORS[decision.advisor] is PRIORITY:
            return struct.pack("<f", 1.0)
        mask = struct.unpack_from("<33q", decision.payload)
        return struct.pack("<q", max(column for column in range(33) if mask[column]))

    with Session(compilation.command, ADVISORS) as session:
        decisions, compiled = drive(session, answer)
    assert {decision.advisor for decision in decisions} == {0, 1, 2}
    assert {decision.context for decision in decisions} == {"", "many"}
    assert object_sizes(compiled.object_bytes).text > 0


def test_the_optimisation_record_comes_on_request_and_changes_nothing(
    toolchain: Toolchain, make_bitcode: MakeBitcode
) -> None:
    compilation = plan(Module("pressure", make_bitcode("pressure.c")), toolchain)
    with Session(compilation.command, optimization_record=True) as session:
        compiled = session.finish(LONG)
    assert b"Pass:            regalloc" in compiled.optimization_record
    assert compiled.object_bytes == plain(compilation)


def test_an_event_loop_can_serve_many_sessions_without_waiting_in_any(compile_calls: Compilation) -> None:
    sessions = [Session(compile_calls.command, [INLINING]) for _ in range(4)]
    answered = dict.fromkeys(sessions, 0)
    try:
        running = set(sessions)
        while running:
            waiting = {descriptor: session for session in running for descriptor in session.descriptors()}
            readable, _, _ = select.select(list(waiting), [], [], LONG)
            assert readable
            for session in {waiting[descriptor] for descriptor in readable}:
                while (decision := session.poll()) is not None:
                    answered[session] += 1
                    session.advise(default(decision))
                if session.exited:
                    running.discard(session)
        objects = {session.finish(LONG).object_bytes for session in sessions}
    finally:
        for session in sessions:
            session.close()
    assert list(answered.values()) == [9] * 4
    assert objects == {plain(compile_calls)}


def test_poll_returns_at_once_while_clang_is_silent() -> None:
    with Session(fake_clang("silent"), [INLINING]) as session:
        assert session.poll() is None
        assert not session.exited


def test_the_scratch_folder_is_removed_once_the_channel_is_open(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert len(scratch_folders()) == 1
        assert session.wait(LONG) is not None
        assert not scratch_folders()


def test_an_interrupted_system_call_is_no_end(compile_calls: Compilation) -> None:
    captured: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: captured.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with Session(compile_calls.command, [INLINING]) as session:
            decisions, _ = drive(session)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert captured
    assert len(decisions) == 9


# Advice sent ahead


def test_advice_sent_ahead_is_used_without_a_decision(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        asked, one_by_one = drive(session, lambda decision: (KEEP, INLINE)[decision.site.index % 2])
    with Session(compile_calls.command, [INLINING]) as session:
        session.advise_ahead([(KEEP, INLINE)[number % 2] for number in range(len(asked))])
        assert session.wait(LONG) is None
        assert session.finish(LONG).object_bytes == one_by_one.object_bytes


def test_decisions_follow_the_advice_sent_ahead(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        session.advise_ahead([INLINE] * 4)
        decisions, _ = drive(session)
    assert [decision.site.index for decision in decisions] == [4, 5, 6, 7, 8]


def test_advice_sent_ahead_answers_a_pending_decision_first(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        session.advise_ahead([INLINE] * 4)
        decisions, _ = drive(session)
    assert [decision.site.index for decision in decisions] == [4, 5, 6, 7, 8]


def test_empty_advice_ahead_does_nothing(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        session.advise_ahead([])
        decisions, _ = drive(session)
    assert len(decisions) == 9


def test_more_advice_than_a_pipe_holds_can_be_sent_ahead() -> None:
    answers = [struct.pack("<q", number) for number in range(20_000)]
    with Session(fake_clang("ask:20000"), [INLINING]) as session:
        session.advise_ahead(answers)
        assert session.wait(LONG) is None
        assert session.finish(LONG).object_bytes == b"".join(answers)


# Failures, with clang's message


def test_a_bad_flag_is_reported_with_clangs_message(compile_calls: Compilation) -> None:
    error = failure_of([*compile_calls.command, "-no-such-flag"])
    assert (error.kind, error.exit_status) == ("exit", 1)
    assert "error: unknown argument: '-no-such-flag'" in str(error)


def test_a_bad_llvm_option_is_reported_with_clangs_message(compile_calls: Compilation) -> None:
    error = failure_of([*compile_calls.command, "-mllvm", "-no-such-option"])
    assert error.kind == "exit"
    assert "Unknown command line argument '-no-such-option'" in str(error)


def test_a_broken_module_is_reported_with_clangs_message(compile_calls: Compilation, broken: Path) -> None:
    error = failure_of([*compile_calls.toolchain.command, *compile_calls.flags, "-x", "ir", str(broken)])
    assert (error.kind, error.exit_status) == ("exit", 1)
    assert f"error: {broken}" in error.stderr or "Invalid" in error.stderr or "Malformed" in error.stderr


def test_a_missing_file_is_reported_with_clangs_message(compile_calls: Compilation) -> None:
    error = failure_of([*compile_calls.toolchain.command, *compile_calls.flags, "-x", "ir", "/no/such/module.bc"])
    assert error.kind == "exit"
    assert "error: error reading '/no/such/module.bc'" in str(error)


def test_a_fatal_error_is_reported_with_clangs_message(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "fatal.c"
    source.write_text("#pragma clang __debug llvm_fatal_error\n")
    error = failure_of(source_command(toolchain, source))
    assert (error.kind, error.exit_status) == ("exit", 70)
    assert "fatal error: error in backend" in str(error)


def test_a_crash_is_reported_with_its_signal(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#pragma clang __debug crash\n")
    error = failure_of(source_command(toolchain, source))
    assert error.kind == "signal"
    assert error.exit_status is not None
    assert error.exit_status < 0
    assert signal.Signals(-error.exit_status).name in str(error)


def test_a_crash_while_a_decision_is_pending_is_found_at_the_next_wait(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        os.kill(session.pid, signal.SIGSEGV)
        assert ends_within(session.pid, 10)
        session.advise(KEEP)
        assert session.wait(LONG) is None
        with pytest.raises(CompilerError, match="SIGSEGV") as caught:
            session.finish(LONG)
    assert (caught.value.kind, caught.value.exit_status) == ("signal", -signal.SIGSEGV)


def test_a_program_that_cannot_be_started_leaves_nothing_behind() -> None:
    before = traces()
    with pytest.raises(CompilerError, match="cannot start '/no/such/clang'") as caught:
        Session(["/no/such/clang", "-cc1"], [INLINING])
    assert caught.value.kind == "start"
    assert traces() <= before


@pytest.mark.parametrize("fault", ["flag", "module", "file", "crash"])
def test_a_failure_surfaces_within_half_a_second_of_clangs_end(
    fault: str, compile_calls: Compilation, broken: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    source = tmp_path / "crash.c"
    source.write_text("#pragma clang __debug crash\n")
    start = [*toolchain.command, *compile_calls.flags, "-x", "ir"]
    command = {
        "flag": [*compile_calls.command, "-no-such-flag"],
        "module": [*start, str(broken)],
        "file": [*start, "/no/such/module.bc"],
        "crash": source_command(toolchain, source),
    }[fault]
    with Session(command, [INLINING]) as session:
        assert ends_within(session.pid, 10)
        with pytest.raises(CompilerError) as caught:
            drive_until_end(session, LONG)
    assert caught.value.kind in ("exit", "signal")


def test_the_error_holds_the_command_for_running_it_again(compile_calls: Compilation, tmp_path: Path) -> None:
    error = failure_of([*compile_calls.command, "-no-such-flag"])
    again = subprocess.run(error.command, capture_output=True, text=True, check=False)
    assert again.returncode == error.exit_status
    assert again.stderr == error.stderr


# Deadlines


def test_a_clang_that_never_starts_is_killed_at_the_deadline(compile_calls: Compilation, tmp_path: Path) -> None:
    endless = tmp_path / "endless.bc"
    os.mkfifo(endless)
    with Session([*compile_calls.toolchain.command, *compile_calls.flags, "-x", "ir", str(endless)]) as session:
        with pytest.raises(CompilerError, match=r"expected a decision or the end of clang within 0\.1 s") as caught:
            session.finish(0.1)
        assert not alive(session.pid)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("behaviour", ["silent", "header", "flood"])
def test_silence_at_any_point_times_out(behaviour: str) -> None:
    with Session(fake_clang(behaviour), [INLINING]) as session:
        with pytest.raises(CompilerError) as caught:
            drive_until_end(session, 0.2)
        assert not alive(session.pid)
    assert caught.value.kind == "timeout"


def test_a_pending_decision_times_out_like_any_silence(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.wait(LONG) is not None
        with pytest.raises(CompilerError) as caught:
            session.wait(0.05)
    assert caught.value.kind == "timeout"


def test_after_a_timeout_the_session_has_exited() -> None:
    with Session(fake_clang("silent"), [INLINING]) as session:
        with pytest.raises(CompilerError):
            session.wait(0.01)
        assert session.exited
        assert session.wait(LONG) is None
        assert session.poll() is None


# A program that violates the protocol


@pytest.mark.parametrize(
    ("behaviour", "complaint"),
    [
        ("garbage", "expected a JSON line, got b'hello'"),
        ("outcome", "the header has no score"),
        ("skip", "expected observation 0 of context '', got 1"),
    ],
)
def test_a_violation_of_the_protocol_is_an_error(behaviour: str, complaint: str) -> None:
    error = failure_of(fake_clang(behaviour))
    assert error.kind == "protocol"
    assert "clang violated the protocol of the inlining advisor" in str(error)
    assert complaint in str(error)


@pytest.mark.parametrize(
    ("behaviour", "words"), [("half-header", "lost in the header"), ("half-question", "lost in the question")]
)
def test_an_exit_in_the_middle_of_a_line_is_reported_as_exit(behaviour: str, words: str) -> None:
    error = failure_of(fake_clang(behaviour))
    assert (error.kind, error.exit_status, error.stderr) == ("exit", 1, words)


def test_an_advisor_that_takes_another_type_is_refused(compile_calls: Compilation) -> None:
    advisor = dataclasses.replace(INLINING, scalar_type="float")
    with Session(compile_calls.command, [advisor]) as session, pytest.raises(CompilerError) as caught:
        session.wait(LONG)
    assert caught.value.kind == "protocol"
    assert "protocol of the inlining advisor: expected advice of one float in the header, got" in str(caught.value)


# Standard error


@pytest.fixture(scope="module")
def noisy_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noise") / "noisy.c"
    path.write_text("".join(f"#warning {'many words here ' * 8} {number}\n" for number in range(4000)))
    return path


def test_a_flood_on_standard_error_does_not_stall_the_compile(toolchain: Toolchain, noisy_source: Path) -> None:
    alone = toolchain.run([*source_command(toolchain, noisy_source)[len(toolchain.command) :], "-o", os.devnull])
    assert len(alone.stderr) > 1_000_000
    with Session(source_command(toolchain, noisy_source)) as session:
        compiled = session.finish(LONG)
    assert len(compiled.stderr) == TAIL_BYTES
    assert alone.stderr.endswith(compiled.stderr)


def test_the_last_message_of_a_failure_after_a_flood_is_kept(
    toolchain: Toolchain, noisy_source: Path, tmp_path: Path
) -> None:
    source = tmp_path / "failing.c"
    source.write_text(noisy_source.read_text() + "#error at the end\n")
    error = failure_of(source_command(toolchain, source))
    assert "error: at the end" in error.stderr
    assert len(error.stderr) == TAIL_BYTES


def test_bytes_that_are_not_utf_8_are_replaced(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "bytes.c"
    source.write_bytes(b"#error \xff\xfe\n")
    assert "error:" in failure_of(source_command(toolchain, source)).stderr


def test_a_child_that_holds_standard_error_open_delays_nothing() -> None:
    error = failure_of(fake_clang("heir"))
    assert error.kind == "exit"
    assert ends_within(int(error.stderr), 1)


# The end of a session


def test_closing_in_the_middle_leaves_nothing(compile_calls: Compilation) -> None:
    before = traces()
    session = Session(compile_calls.command, [INLINING])
    assert session.wait(LONG) is not None
    pid = session.pid
    session.close()
    assert not alive(pid)
    assert traces() <= before


def test_closing_before_clang_has_opened_anything_leaves_nothing(compile_calls: Compilation) -> None:
    before = traces()
    Session(compile_calls.command, [INLINING]).close()
    assert traces() <= before


def test_closing_twice_is_closing_once(compile_calls: Compilation) -> None:
    session = Session(compile_calls.command, [INLINING])
    session.close()
    held = os.open(os.devnull, os.O_RDONLY)
    session.close()
    os.fstat(held)
    os.close(held)


def test_a_collected_session_leaves_nothing(compile_calls: Compilation) -> None:
    before = traces()
    assert Session(compile_calls.command, [INLINING]).wait(LONG) is not None
    assert traces() <= before


def test_the_thread_that_started_the_compile_may_end(compile_calls: Compilation) -> None:
    started: list[Session] = []
    thread = threading.Thread(target=lambda: started.append(Session(compile_calls.command, [INLINING])))
    thread.start()
    thread.join()
    with started[0] as session:
        decisions, _ = drive(session)
    assert len(decisions) == 9


# The end of the host

HOST = """
import os, signal, struct, sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session

session = Session({command!r}, [INLINING])
"""


def host(command: Sequence[str], then: str) -> subprocess.Popen[str]:
    script = HOST.format(command=tuple(command)) + then
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


SAY = "os.write(1, b'%d\\n' % session.pid)\n"


def test_clang_ends_within_a_second_of_a_host_that_is_killed_while_it_decides(compile_calls: Compilation) -> None:
    with host(compile_calls.command, "session.wait(30)\n" + SAY + "sys.stdin.read()") as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert alive(pid)
        running.kill()
        assert ends_within(pid, 1)


@pytest.mark.parametrize("questions", range(3))
def test_clang_ends_with_a_host_that_is_killed_soon_after_the_start(compile_calls: Compilation, questions: int) -> None:
    wait = "session.wait(30), session.advise(bytes(8))\n" * questions
    with host(compile_calls.command, SAY + wait + "os.kill(os.getpid(), signal.SIGKILL)") as running:
        assert running.stdout is not None
        assert ends_within(int(running.stdout.readline()), 1)


def test_clang_exits_with_a_host_that_does_not_close_it(compile_calls: Compilation) -> None:
    with host(compile_calls.command, "session.wait(30)\n" + SAY + "os._exit(0)") as running:
        assert running.stdout is not None
        assert ends_within(int(running.stdout.readline()), 1)


FORK = """
session.wait(30)
copy = os.fork()
if copy == 0:
    {copy}
os.waitpid(copy, 0)
count = 1
session.advise(struct.pack("<q", 1))
while session.wait(30) is not None:
    session.advise(struct.pack("<q", 1))
    count += 1
print(count, len(session.finish(30).object_bytes))
"""


@pytest.mark.parametrize(
    "copy", ["session.close(); os._exit(0)", "del session; sys.exit()", "session.kill(); os._exit(0)", "os._exit(0)"]
)
def test_a_fork_of_the_host_leaves_the_compiler_to_the_original(compile_calls: Compilation, copy: str) -> None:
    with host(compile_calls.command, FORK.format(copy=copy)) as running:
        output, _ = running.communicate(timeout=LONG)
    assert running.returncode == 0
    assert output.split()[0] == "9"


def test_clang_is_killed_with_its_host_while_a_fork_of_the_host_continues(compile_calls: Compilation) -> None:
    then = "session.wait(30)\ncopy = os.fork()\nif copy == 0: signal.pause()\n"
    with host(compile_calls.command, then + "print(session.pid, copy, flush=True); sys.stdin.read()") as running:
        assert running.stdout is not None
        pid, copy = map(int, running.stdout.readline().split())
        try:
            running.kill()
            assert ends_within(pid, 1)
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)


def test_a_plain_compile_does_not_load_ptrace() -> None:
    program = "import sys, mlgo_gym.session.session; print([name for name in sys.modules if 'ptrace' in name])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


KILLED_BEFORE_THE_GUARD = """
import fcntl, os, signal, sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session

original = fcntl.fcntl

def die(descriptor, request, value=0):
    if request != fcntl.F_SETOWN:
        return original(descriptor, request, value)
    os.write(1, b"%d" % -value)
    os.kill(os.getpid(), signal.SIGKILL)

fcntl.fcntl = die
Session(sys.argv[1:], [INLINING])
"""


def test_clang_ends_by_itself_where_its_host_is_killed_before_it_is_guarded(compile_calls: Compilation) -> None:
    host = [sys.executable, "-c", KILLED_BEFORE_THE_GUARD, *compile_calls.command]
    answer = subprocess.run(host, stdout=subprocess.PIPE, check=False)
    assert answer.returncode == -signal.SIGKILL
    assert ends_within(int(answer.stdout), 10)
