"""One compile by a clang that requests decisions: start it, decide, and leave nothing behind."""

from __future__ import annotations

import os
import select

from mlgo_clang.channel import (
    PRINTING_FILES,
    WASM_SIZE_LIMIT,
    Channel,
    at_base,
)
from mlgo_clang.command_lines import expand_response_files, target_of
from mlgo_clang.compiler import CLANG, die_by
from mlgo_clang.files import make_scratch
from mlgo_clang.protocol import silence
from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from mlgo_clang.channel import Bind
    from mlgo_clang.native import NativeServer

    Advisor = tuple[Sequence[str], Bind]
    """The options of an advisor (`mlgo_clang.channel`), and the maker of its server."""

_STOP_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked this process to end, which it does after cleaning up; the argument is the signal's number."""


class _Signals:
    """Turns the signals that end this process into `Interrupted`, until `close()`.

    A signal that arrives while files are made or removed is kept for `raise_kept()`, so that no file stays behind.

    Attributes:
        numbers: the signals; one that this process ignores, as under nohup, clang ignores too.
        wake: a descriptor that is readable after a signal.
        raising: whether a signal raises at once. An attribute, because Python runs handlers at calls.
    """

    def __init__(self) -> None:
        self.raising = False
        self._kept = 0
        # Native code does not run handlers. It waits for this pipe, too.
        self.wake, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wake_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
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
        signal.set_wakeup_fd(self._wake_before)
        os.close(self.wake)
        os.close(self._wake_write)


class InteractiveCompile:
    """A finished compile, in which a policy decided for an advisor of clang.

    Args:
        compiler, rest: the words that start clang, before and after those of the channel.
        advisor: the advisor that requests decisions; None for a plain compile, or another program.
        stderr: the descriptor that becomes clang's standard error; a file if a policy uses callee features.
        timeout: seconds without a sign of life after which clang is stopped.
        streams: descriptors that become clang's standard input and output; negative ones are inherited.
        llvm_option: as in `Dialect`.
        environment: clang's environment; by default this process's.

    Raises:
        ProtocolError, Interrupted: clang does not follow the protocol, or gave no sign of life; or a signal asked this
            process to end. Clang is stopped.
        OSError: the channel cannot be made, or clang cannot be started.

    Attributes:
        status: clang's exit status, negative for the number of a signal.
        decisions: number of decisions made.
        server: native code that decided; None if another policy did, or if clang requested nothing.
    """

    def __init__(
        self,
        compiler: Sequence[str],
        rest: Sequence[str],
        advisor: Advisor | None,
        stderr: int,
        timeout: float,
        streams: tuple[int, int] = (-1, -1),
        llvm_option: tuple[str, str] = CLANG.llvm_option,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.status = -1
        self.decisions = 0
        self.server: NativeServer | None = None
        channel: Channel | None = None
        guard: list[int] = []
        withheld: list[int] = []
        pid = 0
        signals = _Signals()
        try:
            options: list[str] = []
            if advisor is not None:
                switches, bind = advisor
                channel = Channel(f"{make_scratch()}/channel", bind, prints=PRINTING_FILES[-1] in switches)
                channel.open()
                is_wasm = target_of(expand_response_files(rest)).startswith("wasm")
                switches = [*at_base(switches, channel.base), *([WASM_SIZE_LIMIT] if is_wasm else ())]
                options = [word for switch in switches for word in (llvm_option[0], llvm_option[1] + switch)]
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
                os.environ if environment is None else environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, descriptor, number)
                    for number, descriptor in enumerate((*streams, stderr))
                    if descriptor not in (-1, number)
                ],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
            signal_when_closed(guard[0], pid, signal.SIGTERM)
            os.close(guard.pop(0))
            _write_withheld(withheld.pop(), word)
            signals.raising = True
            signals.raise_kept()
            _serve_until_exit(pid, channel, timeout, signals.wake, stderr)
            signals.raising = False
            self.status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            pid = 0
        finally:
            signals.raising = False
            if pid:
                _stop(pid)
            if channel is not None:
                self.server, self.decisions = channel.server, channel.decisions
                channel.close()
            for descriptor in (*guard, *withheld):
                os.close(descriptor)
            signals.close()
            signals.raise_kept()


def _serve_until_exit(pid: int, channel: Channel | None, timeout: float, wake: int, messages: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        for descriptor in (pidfd, wake, *(() if channel is None else (channel.log,))):
            poll.register(descriptor, select.POLLIN)
        milliseconds = int(timeout * 1000)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(milliseconds)]
            if not ready:
                raise silence(milliseconds)
            # Native code in the channel waits for everything that this loop waits for.
            if channel and channel.log in ready and not channel.serve((pidfd, wake), milliseconds, messages):
                poll.unregister(channel.log)
            if pidfd in ready:
                return
    finally:
        os.close(pidfd)


def signal_when_closed(read_end: int, target: int, number: int) -> None:
    """Have the kernel send a signal when the last write end of a pipe is closed, also by the exit of this process.

    Otherwise a clang would wait for advice for ever. On SIGTERM clang removes its incomplete files. The target is a
    process, or a process group as a negative number.
    """
    import fcntl

    fcntl.fcntl(read_end, fcntl.F_SETOWN, target)
    fcntl.fcntl(read_end, 10, number)  # F_SETSIG, which Python before 3.11 does not name
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


_UNLIMITED = 2e6
"""Seconds of a compile without a policy: poll(2) counts milliseconds in an int."""


def run_alone(command: Sequence[str]) -> int:
    """Run the compiler and return its exit status; a signal that ends one of both processes ends both."""
    try:
        status = InteractiveCompile(command[:1], command[1:], None, 2, _UNLIMITED).status
    except Interrupted as interrupted:
        return die_by(interrupted.args[0])
    return die_by(-status) if status < 0 else status
