"""One compile by a clang that requests decisions: start it, decide, and leave nothing behind."""

from __future__ import annotations

import os
import select
import signal
import sys

from mlgo_clang.compiler import CLANG
from mlgo_clang.folders import make_scratch
from mlgo_clang.header import ProtocolError, read_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from mlgo_clang.header import Header

    Decide = Callable[[bytes, int], int]
    """Takes a buffer and the offset of an observation in it, and returns the advice."""
    Bind = Callable[[Header], Decide]
    """Takes the header of a channel and returns the function that decides."""
    Advisor = tuple[Sequence[str], Bind]
    """The `-mllvm` options of an advisor, of which the one that ends in `=` takes the channel; and who decides."""

INLINING = ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=", "-inliner-interactive-include-default")
EVICTION = ("-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base=")

_STOP_SECONDS = 10.0
_LONGEST_HEADER = 1 << 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked this process to end; it does so after cleaning up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Turns the signals that end this process into `Interrupted`, until `close()`.

    A signal that arrives while files are made or removed is kept for `raise_kept()`, so that no file stays behind.

    Attributes:
        numbers: the signals; one that this process ignores, as under nohup, clang ignores too.
        raising: whether a signal raises at once. An attribute, because Python runs handlers at calls.
    """

    def __init__(self) -> None:
        self.raising = False
        self._kept = 0
        self.numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in self.numbers}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.raising:
            self.raising = False
            raise Interrupted(number)
        self._kept = number

    def raise_kept(self) -> None:
        if self._kept:
            raise Interrupted(self._kept)

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Channel:
    def __init__(self, base: str, bind: Bind) -> None:
        self.base = base
        self.bind = bind
        self.advice = self.log = -1
        self.data = b""
        self.decide: Decide | None = None
        self.size = 0
        self.decisions = 0

    def open(self) -> None:
        os.mkfifo(f"{self.base}.in", 0o600)
        os.mkfifo(f"{self.base}.out", 0o600)
        # With O_RDWR there is a reader from the start: a blocking open would wait for clang.
        self.advice = os.open(f"{self.base}.in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = os.open(f"{self.base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> bool:
        """Read what clang has written, and decide; return whether clang can still write."""
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
                self.remove_names()
                continue
            if data.startswith(b'{"context"', position):
                position = newline + 1
                continue
            end = newline + 1 + self.size
            if len(data) <= end:
                break
            if not data.startswith(b'{"observation"', position) or data[end] != 10:
                raise ProtocolError(
                    f"expected an observation of {self.size} bytes and a newline, got "
                    f"{data[position : position + 100]!r}"
                )
            advice = self.decide(data, newline + 1)
            try:
                os.write(self.advice, advice.to_bytes(8, "little", signed=True))
            except BlockingIOError:
                raise ProtocolError("clang requests decisions without reading the advice") from None
            self.decisions += 1
            position = end + 1
        self.data = data[position:]
        if self.decide is None and len(self.data) > _LONGEST_HEADER:
            raise ProtocolError(f"expected a header of at most {_LONGEST_HEADER} bytes, got a longer line")
        return True

    def remove_names(self) -> None:
        """Remove the files of the channel once both ends are open, and the folder after the last channel."""
        for name in (f"{self.base}.in", f"{self.base}.out"):
            try:
                os.unlink(name)
            except OSError:
                continue
        try:
            os.rmdir(os.path.dirname(self.base))
        except OSError:  # another channel is not open yet
            return

    def close(self) -> None:
        for descriptor in (self.advice, self.log):
            if descriptor >= 0:
                os.close(descriptor)
        self.advice = self.log = -1


class InteractiveCompile:
    """A finished compile in which policies decided for clang's advisors.

    Args:
        compiler: the words that start clang.
        rest: its arguments without the channels.
        advisors: the advisors that request decisions.
        stderr: the descriptor that becomes clang's standard error.
        timeout: seconds without a sign of life after which clang is stopped.
        llvm_option: the word before an option of LLVM, and the beginning of the next word.

    Raises:
        ProtocolError: clang does not follow the protocol, or gave no sign of life. It is stopped.
        Interrupted: a signal asked this process to end. Clang is stopped.
        OSError: the channels cannot be made, or clang cannot be started.

    Attributes:
        status: clang's exit status, negative for the number of a signal.
        decisions: number of decisions made.
    """

    def __init__(
        self,
        compiler: Sequence[str],
        rest: Sequence[str],
        advisors: Sequence[Advisor],
        stderr: int,
        timeout: float,
        llvm_option: tuple[str, str] = CLANG.llvm_option,
    ) -> None:
        self.status = -1
        self.decisions = 0
        channels: list[_Channel] = []
        guard: list[int] = []
        withheld: list[int] = []
        scratch = ""
        pid = 0
        signals = _Signals()
        try:
            scratch = make_scratch()
            options: list[str] = []
            for number, (switches, bind) in enumerate(advisors):
                channel = _Channel(f"{scratch}/{number}", bind)
                channels.append(channel)
                channel.open()
                for option in switches:
                    before, start = llvm_option
                    options += (before, start + option + channel.base * option.endswith("="))
            guard += os.pipe()
            withheld += os.pipe()
            os.set_inheritable(guard[0], True)
            # This process may be killed before clang is guarded. So one word waits in a pipe until then. Without it the
            # next `-mllvm` (or `-C` of rustc) is the value of the one before, and the compiler refuses its arguments.
            word = "".join(options[1:2])
            if word:
                # Named by the process id: a wrapper around clang may pass no descriptors on.
                options[1] = f"@/proc/{os.getpid()}/fd/{withheld[0]}"
            # The options go first, since words after a `--` are inputs.
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
            _write_withheld(withheld.pop(), word)
            signals.raising = True
            signals.raise_kept()
            _serve_until_exit(pid, channels, timeout)
            signals.raising = False
            self.status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            pid = 0
        finally:
            signals.raising = False
            if pid:
                _stop(pid)
            for channel in channels:
                self.decisions += channel.decisions
                channel.remove_names()
                channel.close()
            for descriptor in (*guard, *withheld):
                os.close(descriptor)
            if scratch and not channels:
                os.rmdir(scratch)
            signals.close()
            signals.raise_kept()


def _serve_until_exit(pid: int, channels: Sequence[_Channel], timeout: float) -> None:
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
                raise ProtocolError(
                    f"clang gave no sign of life for {timeout:g} s while a policy decided; raise --mlgo-timeout"
                )
            for descriptor in ready:
                channel = by_descriptor.get(descriptor)
                if channel is not None and not channel.serve():
                    poll.unregister(descriptor)
                    del by_descriptor[descriptor]
            if pidfd in ready:
                return
    finally:
        os.close(pidfd)


def _guard(pid: int, read_end: int) -> None:
    """Have the kernel stop clang when this process ends: only this process holds the write end of the pipe.

    Otherwise clang would wait for advice for ever. On SIGTERM clang removes its incomplete files.
    """
    import fcntl

    fcntl.fcntl(read_end, fcntl.F_SETOWN, pid)
    fcntl.fcntl(read_end, 10, signal.SIGTERM)  # F_SETSIG, which Python before 3.11 does not name
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)


def _write_withheld(write_end: int, word: str) -> None:
    try:
        os.write(write_end, word.encode())
    except BrokenPipeError:  # clang has exited
        return
    finally:
        os.close(write_end)


def _stop(pid: int) -> None:
    """Stop a clang by SIGTERM, on which it removes its incomplete files, and reap it."""
    try:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # a stopped process receives nothing else
        pidfd = os.pidfd_open(pid)
        try:
            if not select.select([pidfd], [], [], _STOP_SECONDS)[0]:
                os.kill(pid, signal.SIGKILL)
        finally:
            os.close(pidfd)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def die_by(number: int) -> int:
    """End this process by a signal, so that its parent sees the signal."""
    signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    return 128 + number
