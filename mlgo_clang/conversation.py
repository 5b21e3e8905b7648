"""One compile by a clang that asks: started, answered, and never left behind."""

from __future__ import annotations

import os
import select
import signal
import sys

from mlgo_clang.header import ProtocolError, read_header
from mlgo_clang.scratch import make_scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from mlgo_clang.header import Header

    Decide = Callable[[bytes, int], int]
    """Takes a buffer and where in it a question begins, and returns the advice."""
    Bind = Callable[[Header], Decide]
    """Takes the header of a channel and returns what answers its questions."""

INLINING = ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=", "-inliner-interactive-include-default")
EVICTION = ("-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base=")

_END_SECONDS = 10.0
_LONGEST_HEADER = 1 << 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """This process is to end by a signal, after cleaning up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """The signals that end this process, from now until `close()`: `Interrupted` where they are heeded, and else kept.

    What is being made or removed when a signal comes would be left behind if the handler raised there.

    Attributes:
        numbers: which they are; what this process ignores, as under nohup, clang is to ignore too.
        heeded: whether they are raised as they come. It is set and not called: a call is where Python runs handlers.
    """

    def __init__(self) -> None:
        self.heeded = False
        self._kept = 0
        self.numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in self.numbers}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.heeded:
            self.heeded = False
            raise Interrupted(number)
        self._kept = number

    def raise_kept(self) -> None:
        """Raise `Interrupted` for a signal that was kept."""
        if self._kept:
            raise Interrupted(self._kept)

    def close(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Advisor:
    """One of clang's advisors, and what answers it.

    Args:
        options: the `-mllvm` options that switch it on; the one that ends in `=` takes the channel.
        bind: returns what answers, given the header.
    """

    __slots__ = ("bind", "options")

    def __init__(self, options: Sequence[str], bind: Bind) -> None:
        self.options = options
        self.bind = bind


class _Channel:
    def __init__(self, base: str, bind: Bind) -> None:
        self.base = base
        self.bind = bind
        self.advice = self.log = -1
        self.data = b""
        self.decide: Decide | None = None
        self.size = 0
        self.questions = 0

    def open(self) -> None:
        os.mkfifo(f"{self.base}.in", 0o600)
        os.mkfifo(f"{self.base}.out", 0o600)
        # With O_RDWR there is a reader from the start: a blocking open would wait for clang.
        self.advice = os.open(f"{self.base}.in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = os.open(f"{self.base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def answer(self) -> bool:
        """Read what there is and answer it; return whether clang may still say something."""
        try:
            new = os.read(self.log, 1 << 16)
        except BlockingIOError:
            return True
        if not new:
            return self.decide is None
        data = self.data + new if self.data else new
        position = 0
        while (newline := data.find(b"\n", position)) >= 0:
            if self.decide is None:
                header = read_header(data[position:newline])
                self.decide = self.bind(header)
                self.size = header.size
                position = newline + 1
                self.drop_names()
                continue
            if data.startswith(b'{"context"', position):
                position = newline + 1
                continue
            end = newline + 1 + self.size
            if len(data) <= end:
                break
            if not data.startswith(b'{"observation"', position):
                raise ProtocolError(f"a question was wanted, found {data[position : position + 100]!r}")
            if data[end] != 10:
                raise ProtocolError(f"a question of {self.size} bytes was to end in a newline, and does not")
            advice = self.decide(data, newline + 1)
            try:
                os.write(self.advice, advice.to_bytes(8, "little", signed=True))
            except BlockingIOError:
                raise ProtocolError("clang asks on, and does not read the answers") from None
            self.questions += 1
            position = end + 1
        self.data = data[position:]
        if self.decide is None and len(self.data) > _LONGEST_HEADER:
            raise ProtocolError(
                f"a header of features and advice was wanted, and no line ended within {_LONGEST_HEADER} bytes"
            )
        return True

    def drop_names(self) -> None:
        for name in (f"{self.base}.in", f"{self.base}.out"):
            try:
                os.unlink(name)
            except OSError:
                continue
        try:
            os.rmdir(os.path.dirname(self.base))
        except OSError:  # another channel is still to be opened
            return

    def close(self) -> None:
        for descriptor in (self.advice, self.log):
            if descriptor >= 0:
                os.close(descriptor)
        self.advice = self.log = -1


class Compile:
    """A compile in which advisors ask.

    Args:
        compiler: the words that start clang.
        rest: its arguments, but for the channels.
        advisors: the advisors that ask, with what answers them.
        stderr: the descriptor that becomes clang's standard error.
        timeout: for how long clang may give no sign of life, in seconds.

    Raises:
        ProtocolError: clang breaks the protocol, or gives no sign of life for so long. It is ended.
        Interrupted: this process is to end.
        OSError: there is no room for the channels, or clang cannot be started.

    Attributes:
        status: clang's exit status, negative for the number of a signal.
        questions: how many questions were answered.
    """

    def __init__(
        self,
        compiler: Sequence[str],
        rest: Sequence[str],
        advisors: Sequence[Advisor],
        stderr: int,
        timeout: float,
    ) -> None:
        self.status = -1
        self.questions = 0
        channels: list[_Channel] = []
        guard: list[int] = []
        withheld: list[int] = []
        scratch = ""
        pid = 0
        signals = _Signals()
        try:
            scratch = make_scratch()
            options: list[str] = []
            for number, advisor in enumerate(advisors):
                channel = _Channel(f"{scratch}/{number}", advisor.bind)
                channels.append(channel)
                channel.open()
                for option in advisor.options:
                    options += ("-mllvm", option + channel.base if option.endswith("=") else option)
            guard += os.pipe()
            withheld += os.pipe()
            os.set_inheritable(guard[0], True)
            # This process may be killed before clang is guarded. So one word waits in a pipe until then, and without it
            # the next `-mllvm` is the value of the one before, and clang ends with an unknown argument.
            word = "".join(options[1:2])
            if word:
                # By our process id, since what stands around a clang may hand on no descriptors.
                options[1] = f"@/proc/{os.getpid()}/fd/{withheld[0]}"
            # What is behind a `--` in the arguments is an input.
            words = [*compiler, *options, *rest]
            pid = os.posix_spawn(
                words[0],
                words,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, stderr, 2)] if stderr != 2 else [],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, *signals.numbers],
            )
            _guard(pid, guard[0])
            os.close(guard.pop(0))
            _tell(withheld.pop(), word)
            signals.heeded = True
            signals.raise_kept()
            _answer_all(pid, channels, timeout)
            signals.heeded = False
            self.status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            pid = 0
        finally:
            signals.heeded = False
            if pid:
                _end(pid)
            for channel in channels:
                self.questions += channel.questions
                channel.drop_names()
                channel.close()
            for descriptor in (*guard, *withheld):
                os.close(descriptor)
            if scratch and not channels:
                os.rmdir(scratch)
            signals.close()
            signals.raise_kept()


def _answer_all(pid: int, channels: Sequence[_Channel], timeout: float) -> None:
    """Answer until clang has ended."""
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        by_descriptor = {channel.log: channel for channel in channels}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(timeout * 1000)]
            if not ready:
                raise ProtocolError(f"clang gave no sign of life for {timeout:g} s while a policy answered it")
            for descriptor in ready:
                channel = by_descriptor.get(descriptor)
                if channel is not None and not channel.answer():
                    poll.unregister(descriptor)
                    del by_descriptor[descriptor]
            if pidfd in ready:
                return
    finally:
        os.close(pidfd)


def _guard(pid: int, read_end: int) -> None:
    """Have the kernel end clang when this process is gone: the write end of the pipe is here alone.

    A clang whose host is gone would wait for ever; on SIGTERM it removes its half-written files.
    """
    import fcntl

    fcntl.fcntl(read_end, fcntl.F_SETOWN, pid)
    fcntl.fcntl(read_end, 10, signal.SIGTERM)  # F_SETSIG, which Python before 3.11 does not name
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)


def _tell(write_end: int, word: str) -> None:
    """Give clang the word that was withheld from it; it may have ended."""
    try:
        os.write(write_end, word.encode())
    except BrokenPipeError:
        return
    finally:
        os.close(write_end)


def _end(pid: int) -> None:
    """End a clang by SIGTERM, so that it removes its half-written files, and reap it."""
    try:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # a stopped one hears nothing
        pidfd = os.pidfd_open(pid)
        try:
            if not select.select([pidfd], [], [], _END_SECONDS)[0]:
                os.kill(pid, signal.SIGKILL)
        finally:
            os.close(pidfd)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def die_by(number: int) -> int:
    """End this process by a signal, which its parent is to see."""
    signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    return 128 + number
