"""One running clang: start, next decision, advise, finish, kill; every wait has a deadline.

A session is a small state machine that never blocks in `poll()`, so that one event loop can serve many; `wait()` is the
blocking form. What clang does is described at llvm/Analysis/InteractiveModelRunner.h.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Sequence

from typing_extensions import Self

from mlgo_gym.errors import CompilerError, MlgoError, TrainingLogError
from mlgo_gym.llvm.advisors import INLINING, Advisor
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session import inline_contexts
from mlgo_gym.session.affinity import SharedAffinity
from mlgo_gym.session.channel import Channel
from mlgo_gym.session.compiled import Compiled
from mlgo_gym.session.connection import Connection
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.descriptor_limit import refuse_at_descriptor_limit
from mlgo_gym.session.foretelling import Foretelling
from mlgo_gym.session.host_fork import close_after_fork, forget
from mlgo_gym.session.inline_contexts import InlineContexts
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.session.process import CLANG_ACTION, CompilerProcess, describe_end
from mlgo_gym.session.scratch import no_room, scratch_root
from mlgo_gym.session.standard_error import StandardError
from mlgo_gym.session.starvation import Starvation


class Session:
    """One compile by one clang.

    Args:
        command: the whole command line but for channels and output: program, `-cc1`, flags, input.
        advisors: which advisors ask us; none makes this a plain compile.
        optimization_record: whether to keep the optimisation record of the register allocator.
        contexts: whether to follow in which functions clang inlines; its decisions have contexts then.
        callees: whether to follow which functions it inlines as well; with `contexts` alone.
        foretell: whether to foretell the call that each decision is about; with `contexts` and `callees` alone.
        confined: whether it may write nowhere but into the scratch folder, where the kernel can see to that.
        limits: how much it may take.

    Raises:
        CompilerError: of kind `start`, when the program cannot be started, or there is no room for its channels.
        MlgoError: this process may have no more file descriptors, or contexts are wanted and a flag hides them.
    """

    _process: CompilerProcess | None

    def __init__(
        self,
        command: Sequence[str],
        advisors: Sequence[Advisor] = (),
        *,
        optimization_record: bool = False,
        contexts: bool = False,
        callees: bool = True,
        foretell: bool = False,
        confined: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if contexts:
            inline_contexts.refuse_hiding(command)
        followed_by = InlineContexts() if contexts else None
        self._begin(advisors, (), StandardError(followed_by, Foretelling() if foretell else None), limits)
        try:
            self._connection = Connection.make(
                self.advisors, optimization_record=optimization_record, stderr_file=contexts
            )
            said = inline_contexts.FLAGS if callees else inline_contexts.PLACE_FLAGS
            followed = said if contexts else ()
            self.command = (*command, *followed, *self._connection.arguments(self.advisors))
            self._process = CompilerProcess.start(
                self.command,
                stdout=self._connection.output,
                stderr=self._connection.stderr_write,
                extras=self._connection.lent,
                writable=[scratch_root()] if confined else None,
                limits=limits,
                withheld=CLANG_ACTION,
            )
            self._connection.started()
            self._watch()
        except BaseException as error:
            self._release()
            refuse_at_descriptor_limit(error)
            if isinstance(error, OSError):
                raise no_room(command, error) from error
            raise

    def _begin(
        self, advisors: Sequence[Advisor], command: tuple[str, ...], stderr: StandardError, limits: Limits
    ) -> None:
        self.advisors, self.command, self.limits = tuple(advisors), command, limits
        self.exited = False
        self._waiting: int | None = None
        self._ready: deque[Decision] = deque()
        self._stderr = stderr
        self._host, self._process = os.getpid(), None
        self._connection = Connection()
        self._poll = select.poll()
        self._core: SharedAffinity | None = None
        self._unread: Channel | None = None
        self._starvation = Starvation()

    def _watch(self) -> None:
        for descriptor in self.descriptors():
            self._poll.register(descriptor, select.POLLIN)
        close_after_fork(self)

    @property
    def pid(self) -> int:
        """clang's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def stderr(self) -> str:
        """The tail of what clang wrote to standard error so far."""
        return self._stderr.text

    @property
    def contexts(self) -> InlineContexts | None:
        """What clang said about its decisions so far; None where that is not followed."""
        return self._stderr.contexts

    def end_at(self, sign: bytes) -> None:
        """End clang as soon as it says something on standard error, while a decision waits for `advise()`.

        Args:
            sign: what it says; `heard` begins here. Nothing: let it go on after all.
        """
        assert self._waiting is not None, "what clang has said so far is only known while it waits"
        self._read_stderr()
        self._stderr.tail.listen_for(sign)

    @property
    def heard(self) -> str:
        """All that clang has said on standard error since `end_at()`."""
        return self._stderr.tail.heard

    @property
    def ended_early(self) -> bool:
        """Whether clang has said what `end_at()` waits for."""
        return self._stderr.tail.has_sign

    def header(self, advisor: int = 0) -> LogHeader | None:
        """Return the header that an advisor wrote; None before it has, or when it never asks."""
        return self._connection.channels[advisor].decoder.header

    def descriptors(self) -> list[int]:
        """Return the descriptors whose readability means that `poll()` has something to do."""
        assert self._process is not None
        return [*self._connection.descriptors(), *([self._process.pidfd] if self._process.pidfd >= 0 else ())]

    def advise(self, answer: bytes) -> None:
        """Answer the decision that `poll()` or `wait()` returned last.

        Args:
            answer: the bytes of one advice tensor.

        Raises:
            MlgoError: this is a forked copy of the process that began the compile.
        """
        assert self._waiting is not None, "advise() answers a decision: wait for one first"
        channel = self._connection.channels[self._waiting]
        self._stderr.answered(answer)
        self._waiting = None
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
                "the compile belongs to the process that began it, and this is a forked copy of that: reset() here"
            ) from error
        if self._core is None:
            # What comes before the first decision is one long computation.
            self._core = SharedAffinity(self.pid)

    def advise_ahead(self, answers: Sequence[bytes]) -> None:
        """Answer the next questions before they are asked, so that clang never waits; `wait()` passes over them.

        For a session with one advisor; the current decision, if there is one, is the first to be answered.

        Args:
            answers: the bytes of one advice tensor for each question.
        """
        assert len(self.advisors) == 1, "only the questions of a single advisor have a known order"
        assert self.unasked == 0, "answers are still on their way"
        if not answers:
            return
        asked = (self._waiting is not None) + len(self._ready)
        self._waiting = None
        self._ready.clear()
        self._connection.channels[0].send_ahead(answers, asked)

    @property
    def unasked(self) -> int:
        """How many answers were sent ahead to questions that clang has not asked yet."""
        return self._connection.channels[0].ahead

    def poll(self) -> Decision | None:
        """Return the next decision if clang has asked one, without waiting.

        None means that there is none yet, or, when `exited` is set, that clang has ended, by itself or as `end_at()`
        wants it, and no more will come.

        Raises:
            CompilerError: of kind `protocol`, when clang wrote what is not the protocol.
            ToolchainError: contexts are wanted, and clang does not say where it inlines.
        """
        if self._ready:
            return self._take()
        if self.exited:
            return None
        if self._stderr.tail.sign:
            self._read_stderr()
            if self.ended_early:
                self.kill()
                return None
        # Mostly clang has asked, and then it neither ends nor writes anything else before it has its answer.
        for number, channel in enumerate(self._connection.channels):
            if channel.log >= 0:
                decision = self._read(channel)
                if decision is not None:
                    self._waiting = number
                    return self._placed(decision)
        if self._ready:
            return self._take()
        assert self._process is not None
        # The order matters: what clang wrote before it ended must be found after it was seen to have ended.
        ended = self._process.poll() is not None
        self._read_all()
        if self._ready:
            return self._take()
        if ended:
            self.exited = True
            if self._stderr.contexts is not None:
                self._stderr.contexts.end()
            self._connection.drop_names()
        return None

    def _read_all(self) -> None:
        for channel in self._connection.channels:
            if channel.log >= 0:
                decision = self._read(channel)
                if decision is not None:
                    self._ready.append(decision)
        self._read_stderr()

    def _take(self) -> Decision:
        decision = self._ready.popleft()
        self._waiting = decision.advisor
        return self._placed(decision)

    def _placed(self, decision: Decision) -> Decision:
        """Return the decision that clang waits with, with its place where that is followed."""
        if self._stderr.contexts is None or self.advisors[decision.advisor] is not INLINING:
            return decision
        self._read_stderr()
        site = self._stderr.site(self._connection)
        call = self._stderr.call(decision.payload, self.header(decision.advisor))
        return Decision(decision.advisor, site.component, site.position, decision.payload, site.visit, call)

    def _read(self, channel: Channel) -> Decision | None:
        try:
            decision = channel.read(self._ready)
        except TrainingLogError as error:
            raise self._broken(channel, error) from error
        if decision is None:
            self._take_in_state(channel)
        return decision

    def _take_in_state(self, channel: Channel) -> None:
        """See whether a channel was opened or closed by clang."""
        if channel.ended:
            # A closed FIFO stays readable and would wake every wait.
            self._poll.unregister(channel.log)
            channel.close_log()
        if self._connection.all_channels_open():
            self._connection.drop_names()

    def _broken(self, channel: Channel, error: TrainingLogError) -> CompilerError:
        self.kill()
        return self._error("protocol", f"clang broke the protocol of {channel.advisor.name}: {error}")

    def _read_stderr(self) -> None:
        descriptor = self._connection.stderr
        if descriptor >= 0 and self._stderr.read(self._connection):
            self._poll.unregister(descriptor)
            self._connection.close_stderr()

    def wait(self, timeout: float) -> Decision | None:
        """Return the next decision, or None when clang has ended and no more will come.

        Args:
            timeout: the longest wait, in seconds; see `grace()`.

        Raises:
            CompilerError: of kind `timeout`: clang neither asked nor ended in time, and was killed; or `protocol`.
        """
        if self._ready or self.exited:
            return self.poll()
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0 or (remaining := self.grace(timeout)) > 0:
            deadline = time.monotonic() + remaining
            if self._core is None:
                self._poll.poll(remaining * 1000)
            else:
                self._core.wait(self._poll, remaining)
            if (decision := self.poll()) is not None or self.exited:
                return decision
        raise self.timed_out(timeout)

    def grace(self, timeout: float) -> float:
        """Return for how many more seconds to wait for a clang that was silent for so long; see `Starvation`."""
        return self._starvation.grace(self.pid, timeout)

    def timed_out(self, timeout: float) -> CompilerError:
        """Kill clang and return the error that says it was too slow."""
        self.kill()
        return self._error("timeout", f"clang was to ask or to finish within {timeout:g} s and did not; it was killed")

    def finish(self, timeout: float) -> Compiled:
        """Wait for clang to end and return what it left. Decisions still asked are an error of the caller's.

        Raises:
            CompilerError: it failed (`exit`, `signal`), or did not end in time (`timeout`).
        """
        if not self.exited:
            decision = self.wait(timeout)
            assert decision is None, "clang still asks: answer its decisions before finish()"
        assert self._process is not None
        status = self._process.exit_status
        if status != 0:
            raise self.failure()
        return self._connection.compiled(self.stderr)

    def failure(self) -> CompilerError:
        """Return the error that says how clang failed, with the tail of standard error."""
        assert self._process is not None
        if self._unread is not None:
            broken = f"clang broke the protocol of {self._unread.advisor.name}"
            said = f"{broken}: it asks on and reads no answers, until their pipe was full; it was killed"
            return self._error("protocol", said)
        exceeded = self.limits.exceeded(self._process.exit_status, self.stderr)
        return self._error("limit", exceeded) if exceeded else self._error(*describe_end(self._process.exit_status))

    def _error(self, kind: str, message: str) -> CompilerError:
        status = self._process.exit_status if self._process is not None else None
        return CompilerError(message, kind=kind, exit_status=status, stderr=self.stderr, command=self.command)

    def kill(self) -> None:
        """End clang now. Idempotent; what it wrote so far is read."""
        if self._process is not None and not self.exited:
            self._process.kill()
            self._read_stderr()
            self._ready.clear()
            self.exited = True
            self._connection.drop_names()

    def close(self) -> None:
        """End clang if it still runs, and close everything. Idempotent."""
        if self._host == os.getpid():
            self.kill()
        self._release()

    def _release(self) -> None:
        forget(self)
        ours = self._host == os.getpid()
        if self._process is not None:
            if ours:
                self._process.close()
            else:
                self._process.abandon()
        self.exited = True
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()
