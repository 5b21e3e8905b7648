"""A process for models of other libraries, so that a damaged model harms only that process.

The runtimes of models are written in C++ and trust their files. A damaged model can crash them; a hostile one can run
for ever or take all memory. The process has limits, may not write files, and has a deadline for each request. Its
answers are untrusted input.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.compiler.limits import Limits, Starvation, is_out_of_memory, raise_if_descriptor_limit
from mlgo_gym.compiler.process import CLOSED_AFTER_FORK, FIRST_EXTRA_DESCRIPTOR, CompilerProcess
from mlgo_gym.compiler.waiting import interruptible, uninterrupted
from mlgo_gym.errors import CompilerError, PolicyError

SECONDS = 60.0
"""Seconds for one request; the first includes the start of the process."""

MEMORY_GIB = 4.0
"""Address space of a model in GiB, beyond that of its runtime."""

WORKER = Path(__file__).with_name("model_worker.py")
"""The program of the process."""

_HEADER = struct.Struct("<cI")
_PIECE = 1 << 16
_MAX_QUOTED = 2000
_ENDING_SECONDS = 5.0


class ModelProcessError(PolicyError):
    """A model's process has exited, or was stopped; the next request starts another."""


class ModelProcess:
    """Sends requests to `mlgo_gym.policies.model_worker` and waits for the answers.

    The first request starts the process, as does the next one after it has exited. It ends with this object and with
    the host. A forked copy of the host starts its own.

    Args:
        kind: kind of its models, `"tflite"` or `"onnx"`.
        seconds: seconds for one request.
        worker: the program of the process; another one can show any fault in a test.

    Attributes:
        loaded: token of the loaded model, which its user sets; None without a model.
    """

    def __init__(self, kind: str, seconds: float = SECONDS, worker: Path = WORKER) -> None:
        self._kind, self._seconds, self._worker = kind, seconds, worker
        self._process: CompilerProcess | None = None
        self._end: weakref.finalize[..., ModelProcess] | None = None
        self._channel = self._stderr = -1
        self.loaded: object = None

    @property
    def pid(self) -> int:
        """Process id; 0 without a process."""
        return self._process.pid if self._process is not None else 0

    def request(self, letter: bytes, parts: Sequence[bytes], max_bytes: int) -> tuple[bytes, bytes]:
        """Send a request in pieces, and return the letter and the bytes of the answer, at most `max_bytes`.

        Raises:
            ModelProcessError: there was no valid answer, and the process was stopped.
        """
        process = self._process or self._start()
        deadline = time.monotonic() + self._seconds
        rest = memoryview(b"".join((_HEADER.pack(letter, sum(map(len, parts))), *parts)))
        data, expected = bytearray(), _HEADER.size
        try:
            while rest or len(data) < expected:
                try:
                    if rest:
                        rest = rest[os.write(self._channel, rest) :]
                        continue
                    piece = os.read(self._channel, max(expected - len(data), _PIECE))
                except BlockingIOError:
                    deadline = self._wait(process, self._writable if rest else self._readable, deadline)
                    continue
                except ConnectionError:
                    piece = b""
                if not piece:
                    raise self._failure(process)
                data += piece
                if expected == _HEADER.size and len(data) >= expected:
                    _, size = _HEADER.unpack_from(data)
                    if size > max_bytes:
                        raise ModelProcessError(f"expected an answer of at most {max_bytes:,} bytes, got {size:,}")
                    expected += size
        except BaseException:
            # Also after an interrupt: the next request must not receive this answer.
            self.close()
            raise
        return bytes(data[:1]), bytes(memoryview(data)[_HEADER.size :])

    def close(self) -> None:
        """Stop the process; in a forked copy of the host, close its descriptors only. Idempotent."""
        self.loaded = self._process = None
        if self._end is not None:
            self._end()

    @uninterrupted()
    def _start(self) -> CompilerProcess:
        self._starvation = Starvation()
        self._readable, self._writable = select.poll(), select.poll()
        descriptors: list[int] = []
        try:
            # Error output beyond the size of the pipe is discarded, and nothing waits for it.
            descriptors += os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            descriptors += [end.detach() for end in socket.socketpair()]
            self._stderr, stderr, self._channel, channel = descriptors
            os.set_blocking(self._channel, False)
            words = [self._kind, str(FIRST_EXTRA_DESCRIPTOR), str(int(MEMORY_GIB * (1 << 30)))]
            search = [entry for entry in sys.path if isinstance(entry, str)]
            process = CompilerProcess.start(
                [sys.executable, "-I", "-S", str(self._worker), *words, *search],
                stdout=stderr,
                stderr=stderr,
                extras=[channel],
                writable=(),
                # The worker limits itself once its libraries are loaded.
                limits=Limits(memory=None, cpu=None),
            )
        except BaseException as error:
            for descriptor in descriptors:
                os.close(descriptor)
            raise_if_descriptor_limit(error)
            if isinstance(error, CompilerError):
                raise ModelProcessError(str(error)) from error
            raise
        for descriptor in (stderr, channel):
            os.close(descriptor)
        self._process = process
        self._end = weakref.finalize(self, _stop, os.getpid(), process, (self._stderr, self._channel))
        CLOSED_AFTER_FORK.add(self)
        for poll, event in ((self._readable, select.POLLIN), (self._writable, select.POLLOUT)):
            poll.register(self._channel, event)
            poll.register(process.pidfd, select.POLLIN)
        return process

    def _wait(self, process: CompilerProcess, poll: select.poll, deadline: float) -> float:
        """Wait for the channel; return the deadline, which a busy machine extends."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            remaining = self._starvation.grace(process.pid, self._seconds)
            if remaining <= 0:
                raise ModelProcessError(f"its process gave no answer within {self._seconds:g} s and was stopped")
            deadline = time.monotonic() + remaining
        interruptible(poll.poll, remaining * 1000)
        # A process that is forked at this instant holds the channel open, so the channel alone does not show the end.
        if process.poll() is not None and not _is_readable(self._channel, 0):
            raise self._failure(process)
        return deadline

    def _failure(self, process: CompilerProcess) -> ModelProcessError:
        """Return the error of a process that has exited, or closed its channel."""
        _is_readable(process.pidfd, _ENDING_SECONDS)
        process.kill()
        status, output = process.exit_status, b""
        with contextlib.suppress(BlockingIOError):
            output = os.read(self._stderr, _PIECE)
        text = output.decode(errors="replace")
        if is_out_of_memory(text):
            return ModelProcessError(f"it needs more than {MEMORY_GIB:g} GiB of memory, and its process was stopped")
        quoted = "\n".join(line for line in text.splitlines() if not line.startswith("INFO:")).strip()[-_MAX_QUOTED:]
        signalled = status is not None and status < 0
        how = f"signal {-status} ({signal.Signals(-status).name})" if status and signalled else f"exit status {status}"
        return ModelProcessError(f"its process ended by {how}; use another model" + (f": {quoted}" if quoted else ""))


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


@uninterrupted()
def _stop(host: int, process: CompilerProcess, descriptors: Sequence[int]) -> None:
    (process.close if host == os.getpid() else process.abandon)()
    for descriptor in descriptors:
        os.close(descriptor)
