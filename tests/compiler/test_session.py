"""One running clang: its decisions, its result, and its failures."""

import os
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine, drive, drive_coroutine, run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.standard_error import TAIL_BYTES
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.fakes.fake_clang import fake_clang
from tests.traces import alive, ends_within, scratch_folders

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0
KEEP, INLINE = struct.pack("<q", 0), struct.pack("<q", 1)


def default(decision: Decision) -> bytes:
    return decision.payload[-8:]


def alternate(decision: Decision) -> bytes:
    return (KEEP, INLINE)[decision.site.index % 2]


def run(
    session: Session, choose: Callable[[Decision], bytes] = default, timeout: float = LONG
) -> tuple[list[Decision], CompileResult]:
    """Drive a session, and return its decisions too."""
    decisions: list[Decision] = []

    def noted(decision: Decision) -> bytes:
        decisions.append(decision)
        return choose(decision)

    return decisions, drive(session, noted, timeout)


def plain(compilation: Compilation) -> bytes:
    with Session(compilation.command) as session:
        return session.finish(LONG).object_bytes


def failure_of(command: Sequence[str], timeout: float = LONG) -> CompilerError:
    with Session(command, [INLINING]) as session:
        with pytest.raises(CompilerError) as caught:
            run(session, timeout=timeout)
        assert not alive(session.pid)
    return caught.value


# A successful compile


def test_decisions_come_in_order_and_defaults_give_the_plain_object(compile_calls: Compilation, tmp_path: Path) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert session.header() is None
        assert len(scratch_folders()) == 1
        first = session.wait(LONG)
        assert first is not None
        assert not scratch_folders()  # the channel is open
        session.advise(default(first))
        decisions, compiled = run(session)
        header = session.header()
    decisions = [first, *decisions]
    assert header is not None
    assert [decision.site.index for decision in decisions] == list(range(9))
    assert {(decision.advisor, decision.context) for decision in decisions} == {(0, "")}
    assert {len(decision.payload) for decision in decisions} == {header.observation_bytes}
    alone = tmp_path / "alone.o"
    compile_calls.toolchain.run([*compile_calls.flags, *compile_calls.inputs, "-o", str(alone)])
    assert compiled.object_bytes == plain(compile_calls) == alone.read_bytes()
    assert object_sizes(compiled.object_bytes).text > 0


def test_an_interrupted_system_call_is_no_end_and_the_starting_thread_may_end(compile_calls: Compilation) -> None:
    captured: list[int] = []
    started: list[Session] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: captured.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        thread = threading.Thread(target=lambda: started.append(Session(compile_calls.command, [INLINING])))
        thread.start()
        thread.join()
        with started[0] as session:
            decisions, _ = run(session)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert captured
    assert len(decisions) == 9


# Failures, with clang's message


@pytest.mark.parametrize(
    ("word", "kind", "status", "message"),
    [
        ("-no-such-flag", "exit", 1, "error: unknown argument: '-no-such-flag'"),
        ("#pragma clang __debug llvm_fatal_error", "exit", 70, "fatal error: error in backend"),
        ("#pragma clang __debug crash", "signal", None, "SIG"),
        ("#error \udcff\udcfe", "exit", 1, "error: "),
    ],
    ids=["flag", "fatal", "crash", "bytes"],
)
def test_a_failure_has_clangs_message_and_the_command(
    word: str, kind: str, status: int | None, message: str, compile_calls: Compilation, tmp_path: Path
) -> None:
    command = [*compile_calls.command, word]
    if word.startswith("#"):
        source = tmp_path / "source.c"
        source.write_bytes(word.encode(errors="surrogateescape") + b"\n")
        command = [*compile_calls.toolchain.command, "-cc1", "-triple", "x86_64-linux-musl", "-emit-obj", str(source)]
    with Session(command, [INLINING]) as session:
        assert ends_within(session.pid, 10)
        with pytest.raises(CompilerError) as caught:
            session.finish(LONG)
    error = caught.value
    assert error.kind == kind
    assert message in str(error)
    if status is None:
        assert error.exit_status is not None
        assert signal.Signals(-error.exit_status).name in str(error)
        return
    again = subprocess.run(error.command, capture_output=True, check=False)
    assert (again.returncode, again.stderr.decode(errors="replace")) == (error.exit_status, error.stderr)
    assert error.exit_status == status


# Deadlines


def test_a_pending_decision_times_out_like_any_silence_and_the_session_has_exited(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        assert not session.exited
        assert session.wait(LONG) is not None
        with pytest.raises(CompilerError) as caught:
            session.wait(0.05)
        assert session.exited
        assert session.wait(LONG) is None
        assert session.poll() is None
    for error, seconds in ((caught.value, "0.05"), (failure_of(fake_clang("flood"), 0.2), "0.2")):
        assert error.kind == "timeout"
        assert str(error).startswith(f"expected a decision or the end of clang within {seconds} s")


# Standard error


def test_a_flood_on_standard_error_neither_stalls_nor_hides_the_message(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "noisy.c"
    words = ["-cc1", "-triple", "x86_64-linux-musl", "-emit-obj", str(source)]
    source.write_text("".join(f"#warning {'many words here ' * 4} {number}\n" for number in range(1000)))
    alone = toolchain.run([*words, "-o", os.devnull])
    assert len(alone.stderr) > 2 * TAIL_BYTES
    with Session([*toolchain.command, *words]) as session:
        compiled = session.finish(LONG)
    assert len(compiled.stderr) == TAIL_BYTES
    assert alone.stderr.endswith(compiled.stderr)
    with source.open("a") as file:
        file.write("#error at the end\n")
    error = failure_of([*toolchain.command, *words])
    assert "error: at the end" in error.stderr
    assert len(error.stderr) == TAIL_BYTES


# Calls in the wrong order


def test_calls_of_a_session_in_the_wrong_order_are_errors(compile_calls: Compilation) -> None:
    with Session(compile_calls.command, [INLINING]) as session:
        for call in (lambda: session.advise(bytes(8)), lambda: session.stop_at(b"x")):
            with pytest.raises(MlgoError, match="expected a pending decision, got none; wait"):
                call()
        for _ in range(2):
            with pytest.raises(MlgoError, match="got a pending one; advise"):
                session.finish(LONG)


# Coroutines that wait for compilers; tests of vector environments run them by an event loop

ANSWER = b"answered"


def answer_all(behaviour: str) -> CompilerCoroutine[bytes]:
    with Session(fake_clang(behaviour), [INLINING]) as session:
        return (yield from drive_coroutine(session, lambda _: ANSWER)).object_bytes


def second_try(behaviour: str) -> CompilerCoroutine[bytes]:
    try:
        return (yield from answer_all(behaviour))
    except CompilerError as error:
        return error.kind.encode() + (yield from answer_all("ask:3"))


def test_a_coroutine_receives_every_decision_and_may_continue_after_a_failure() -> None:
    failures = [("exit@half", 30.0, b"exit"), ("garbage", 30.0, b"protocol"), ("stall@start", 1.0, b"timeout")]
    for behaviour, timeout, kind in failures:
        assert run_blocking(second_try(behaviour), timeout) == kind + ANSWER * 3
    with pytest.raises(CompilerError, match="fatal error: lost at the question"):
        run_blocking(answer_all("exit@question"), 30.0)
