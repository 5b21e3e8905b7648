"""One compile by one clang: start, decisions, advice, result; every wait has a deadline.

`Session.poll()` never blocks, so that one event loop can serve many sessions; `wait()` blocks. The protocol is
described in llvm/Analysis/InteractiveModelRunner.h.
"""

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager

from mlgo_clang.files import scratch_parent
from mlgo_gym.compiler.callee_features import with_callee_features
from mlgo_gym.compiler.channel import Channel
from mlgo_gym.compiler.connection import CompileResult, Connection
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.decision_code import DecisionCode
from mlgo_gym.compiler.inlining_output import CALLEE_FLAGS, CODE_FLAGS, CONTEXT_FLAGS, InliningOutput
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits, cpu_wait_seconds, raise_if_descriptor_limit
from mlgo_gym.compiler.printed_module import PrintedModule
from mlgo_gym.compiler.process import CLOSED_AFTER_FORK, STACK_USAGE_FLAGS, CompilerProcess, FileId, describe_exit
from mlgo_gym.compiler.standard_error import StandardError, check_command
from mlgo_gym.compiler.waiting import uninterrupted
from mlgo_gym.errors import CompilerError, MlgoError, SnapshotError
from mlgo_gym.llvm.advisors import INLINING, Advisor
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.training_log import LogHeader


class Session(AbstractContextManager["Session"]):
    """One compile by one clang.

    Args:
        command: Command line without channels and output: program, `-cc1`, flags, input.
        advisors: Advisors that request decisions; none for a plain compile.
        optimization_record: Whether to keep the optimisation record of the register allocator.
        contexts: Whether inlining decisions have contexts.
        callees: Whether the remarks name the callees of inlining decisions; requires `contexts`.
        callee_features: Whether to predict the callee of each decision and to extend headers and payloads by callee
            features; requires `contexts` and `callees`.
        link_facts: Link facts of the build, for callee features.
        code: The module when the inliner starts, for the code at decisions; requires `contexts`. None for no code.
        confined: Whether clang may write only into the scratch folder, where the kernel has Landlock.
        limits: Limits of the compile.

    Attributes:
        code: Code at the pending decision; None without code.

    Raises:
        CompilerError: The program cannot be started, or its files cannot be made (kind `start`).
        MlgoError: No file descriptor is left, or a flag hides the contexts.
    """

    @uninterrupted()
    def __init__(
        self,
        command: Sequence[str],
        advisors: Sequence[Advisor] = (),
        *,
        optimization_record: bool = False,
        contexts: bool = False,
        callees: bool = True,
        callee_features: bool = False,
        link_facts: LinkFacts | None = None,
        code: PrintedModule | None = None,
        confined: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if contexts:
            check_command(command)
        stderr = StandardError(
            InliningOutput(link_facts) if contexts else None,
            predicts=callee_features,
            code=None if code is None else DecisionCode(code),
        )
        self._begin(advisors, tuple(command), stderr, limits)
        try:
            self._connection = Connection.make(
                self.advisors,
                stack_usage=STACK_USAGE_FLAGS[-1] in command,
                optimization_record=optimization_record,
                stderr_file=contexts,
            )
            printing = CODE_FLAGS if code is not None else CALLEE_FLAGS if callees else CONTEXT_FLAGS
            self.command = (*command, *(printing if contexts else ()), *self._connection.arguments())
            self._process = self._connection.start(self.command, confined, limits)
            self._watch()
        except BaseException as error:
            self.close()
            raise_if_descriptor_limit(error)
            if isinstance(error, OSError):
                files = f"the channels of a compile in {scratch_parent()!r} or its object in memory"
                raise self._error("start", f"cannot make {files}: {error}") from error
            raise

    def _begin(
        self, advisors: Sequence[Advisor], command: tuple[str, ...], stderr: StandardError, limits: Limits
    ) -> None:
        self.advisors, self.command, self.limits = tuple(advisors), command, limits
        self.exited = False
        self._pending: int | None = None
        self._ready: deque[Decision] = deque()
        self._stderr, self.code = stderr, stderr.code
        self._host = os.getpid()
        self._process = CompilerProcess(0, -1, -1)  # not started
        self._connection = Connection()
        self._unread: Channel | None = None
        self._cpu_wait = 0.0

    def _watch(self) -> None:
        self._connection.watch(self._process.pidfd)
        CLOSED_AFTER_FORK.add(self)

    @property
    def pid(self) -> int:
        """Process id of clang."""
        return self._process.pid

    def stop_at(self, marker: bytes) -> None:
        """Kill clang once it prints a marker; `captured` starts here. An empty marker cancels that.

        With advisors a decision must be pending, when standard error is complete; else `MlgoError` is raised.
        """
        if self.advisors:
            self._require_pending()
            self._read_stderr()
        self._stderr.capture(marker)

    @property
    def captured(self) -> str:
        """Standard error since `stop_at()`."""
        return self._stderr.captured

    def header(self, advisor: int = 0) -> LogHeader | None:
        """Return the header of an advisor; None before its first decision."""
        header = self._connection.channels[advisor].decoder.header
        if header is not None and self._stderr.predicts and self.advisors[advisor] is INLINING:
            return with_callee_features(header)
        return header

    def descriptors(self) -> list[int]:
        """Return the descriptors to watch; `poll()` when one is readable."""
        return [*self._connection.descriptors(), *(() if self._process.pidfd < 0 else (self._process.pidfd,))]

    def advise(self, answer: bytes) -> None:
        """Answer the decision that `poll()` or `wait()` returned last with the bytes of an advice tensor.

        Raises:
            MlgoError: No decision is pending, or this process is a fork of the process that started the compile.
        """
        channel = self._connection.channels[self._require_pending()]
        self._stderr.answer(answer)
        self._pending = None
        try:
            # An answer is shorter than PIPE_BUF and clang waits for it: the write is atomic and never blocks.
            os.write(channel.advice, answer)
        except BlockingIOError:
            self._unread = channel
            self.kill()
            return
        except OSError as error:
            if self._host == os.getpid():
                raise
            raise MlgoError(
                "expected the process that started the compile, got a fork of it; call reset() here"
            ) from error

    def _require_pending(self) -> int:
        if self._pending is None:
            raise MlgoError("expected a pending decision, got none; wait() for one first")
        return self._pending

    def poll(self) -> Decision | None:
        """Return the next decision without waiting, or None; with `exited` there are no more decisions.

        Raises:
            CompilerError: clang violated the protocol (kind `protocol`).
            ToolchainError: This clang does not print contexts.
        """
        ready, stderr = self._ready, self._stderr
        if not ready:
            if self.exited:
                return None
            if stderr.marker:
                self._read_stderr()
                if stderr.marker_seen:
                    self.kill()
                    return None
            # Usually clang has requested a decision, and then it does nothing else before the answer.
            for channel in self._connection.channels:
                if not channel.read(ready):
                    self._settle(channel)
                if ready:
                    break
            else:
                # In this order, so that everything is read that clang wrote before it exited.
                exited = self._process.poll() is not None
                self._read_all()
                if not ready:
                    if exited:
                        self.exited = True
                        self._connection.remove_files()
                    return None
        decision = ready.popleft()
        self._pending = decision.advisor
        header = self._connection.channels[decision.advisor].decoder.header
        if stderr.inlining is None or self.advisors[decision.advisor] is not INLINING or header is None:
            return decision
        self._read_stderr()
        return stderr.locate(decision, header, self._connection.stderr)

    def _read_all(self) -> None:
        for channel in self._connection.channels:
            if not channel.read(self._ready):
                self._settle(channel)
        self._read_stderr()

    def _settle(self, channel: Channel) -> None:
        """Follow the start and the end of a log; raise `CompilerError` if it violates the protocol."""
        if channel.error is not None:
            self.kill()
            raise self._protocol_error(channel, str(channel.error)) from channel.error
        self._connection.follow(channel)

    def _read_stderr(self) -> None:
        if self._connection.stderr >= 0 and self._stderr.read(self._connection.stderr):
            self._connection.end_stderr()

    def wait(self, timeout: float) -> Decision | None:
        """Return the next decision, or None when clang has exited; wait for `timeout` seconds, plus `grace()`.

        Raises:
            CompilerError: clang did nothing within the timeout and was killed (kind `timeout`), or violated the
                protocol (kind `protocol`).
        """
        if self._ready or self.exited:
            return self.poll()
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0 or (remaining := self.grace(timeout)) > 0:
            deadline = time.monotonic() + remaining
            self._connection.wait(remaining)
            if (decision := self.poll()) is not None or self.exited:
                return decision
        raise self.timeout_error(timeout)

    def callees(self) -> list[str]:
        """Return the callees of the inlining decisions of a clang that has exited, empty where it printed none."""
        return [] if self._stderr.inlining is None else self._stderr.inlining.callees()

    @property
    def stderr(self) -> str:
        """Tail of clang's standard error so far."""
        return self._stderr.text

    def failure(self) -> CompilerError:
        """Return the error of a clang that failed, with the tail of standard error."""
        if self._unread is not None:
            return self._protocol_error(self._unread, "it requests decisions and reads no answers; it was killed")
        status = self._process.exit_status
        exceeded = self.limits.exceeded(status, self.stderr)
        return self._error(*(exceeded or describe_exit(status)))

    def _protocol_error(self, channel: Channel, problem: str) -> CompilerError:
        return self._error("protocol", f"clang violated the protocol of the {channel.advisor.name} advisor: {problem}")

    def _error(self, kind: str, message: str) -> CompilerError:
        status = self._process.exit_status
        return CompilerError(message, kind=kind, exit_status=status, stderr=self.stderr, command=self.command)

    def grace(self, timeout: float) -> float:
        """Return the additional time for a clang that was silent for `timeout` seconds, in seconds.

        It is the time that clang has waited for a CPU since the last call, at most the timeout; 0 if that is below a
        tenth of the timeout. On an overloaded machine a second's work may take minutes.
        """
        waited = cpu_wait_seconds(self.pid)
        more, self._cpu_wait = waited - self._cpu_wait, waited
        return min(more, timeout) if more > 0.1 * timeout else 0.0

    def timeout_error(self, timeout: float) -> CompilerError:
        """Kill clang, and return the error of a timeout."""
        self.kill()
        message = f"expected a decision or the end of clang within {timeout:g} s, got neither; clang was killed"
        return self._error("timeout", message)

    @uninterrupted()
    def fork(self, timeout: float = 10.0) -> "Session":
        """Return an independent copy of the session and its clang, with the same pending decision.

        Copies may be made in any thread, also of copies, and closed in any order. A copy of 50 MB takes a millisecond.
        Raises `SnapshotError` if no decision is pending, or clang cannot be copied; this session continues.
        """
        # A session that is never forked loads no ptrace.
        from mlgo_gym.compiler.snapshot import fork_process

        if self._pending is None or self.exited:
            raise SnapshotError("expected a pending decision to fork at, got none; wait() for one first")
        if self._process.poll() is not None:
            raise SnapshotError(f"expected a clang that waits for an answer, got one that exited: {self.failure()}")
        # The copy gets new files, so the unread output of clang must be read before.
        self._read_all()
        copied = object.__new__(type(self))
        copied._begin(self.advisors, self.command, self._stderr.copy(), self.limits)
        copied._pending = self._pending

        def make_files() -> tuple[dict[FileId, str], str]:
            copied._connection, files = self._connection.copy()
            return files, copied._connection.name("guard")

        try:
            reading = self._connection.channels[self._pending].advice
            copied._process = fork_process(self._process, reading, make_files, timeout)
            copied._connection.remove_files_once_open()
            copied._watch()
        except BaseException as error:
            copied.close()
            if isinstance(error, OSError):
                raise SnapshotError(f"cannot watch the copy of clang: {error}") from error
            raise
        return copied

    def finish(self, timeout: float) -> CompileResult:
        """Wait until clang exits, and return its result.

        Raises:
            CompilerError: clang failed (kind `exit`, `signal` or `limit`), or did not exit in time (kind `timeout`).
            MlgoError: A decision is pending.
        """
        if not self.exited and (self._pending is not None or self.wait(timeout) is not None):
            raise MlgoError("expected answers to all decisions, got a pending one; advise() before finish()")
        if self._process.exit_status != 0:
            raise self.failure()
        return self._connection.result(self.stderr)

    @uninterrupted()
    def kill(self) -> None:
        """Kill clang, and read its output so far. Idempotent."""
        if not self.exited:
            self._process.kill()
            self._read_stderr()
            self._ready.clear()
            self.exited = True
            self._connection.remove_files()

    @uninterrupted()
    def close(self) -> None:
        """Kill clang if it runs, and close everything. Idempotent."""
        if self._host == os.getpid():
            self.kill()
        CLOSED_AFTER_FORK.discard(self)
        self._process.abandon()
        self.exited = True
        self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # An interrupt in a finaliser is lost, so a closed session does nothing here.
        connection = getattr(self, "_connection", None)
        if connection is not None and not connection.closed:
            self.close()
