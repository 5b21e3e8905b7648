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
import struct
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.compiler.affinity import SharedAffinity
from mlgo_gym.compiler.interrupts import interruptible, uninterrupted
from mlgo_gym.compiler.limits import Limits, Starvation, is_out_of_memory, raise_if_descriptor_limit
from mlgo_gym.compiler.process import FIRST_EXTRA_DESCRIPTOR, CompilerProcess, cancel_close_after_fork, close_after_fork
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
        kind: kind of its models, `"tflite"`, `"onnx"` or `"sb3"`.
        seconds: seconds for one request.
        worker: the program of the process; another one can show any fault in a test.
    """

    def __init__(self, kind: str, seconds: float = SECONDS, worker: Path = WORKER) -> None:
        self._loaded: object = None
        self._kind, self._seconds, self._worker = kind, seconds, worker
        self._child: _Child | None = None
        self._end: weakref.finalize[[], ModelProcess] | None = None

    @property
    def pid(self) -> int:
        """Process id; 0 without a process."""
        return self._child.process.pid if self._child is not None and self._child.open else 0

    @property
    def loaded(self) -> object:
        """The token of the loaded model, which its user sets; None without a model."""
        return self._loaded if self.pid else None

    @loaded.setter
    def loaded(self, model: object) -> None:
        self._loaded = model

    def request(self, letter: bytes, parts: Sequence[bytes], max_bytes: int) -> tuple[bytes, bytes]:
        """Send a request, and return the letter and the bytes of the answer.

        Args:
            letter: letter of the request.
            parts: its bytes, in pieces.
            max_bytes: maximum size of the answer.

        Raises:
            ModelProcessError: there was no valid answer, and the process was stopped.
        """
        child = self._child
        if child is None or not child.open:
            self._loaded = None
            with uninterrupted():
                self._child = child = _Child(self._kind, self._seconds, self._worker)
                self._end = weakref.finalize(self, child.close)
        try:
            return child.request(letter, parts, max_bytes)
        except BaseException:
            # Also after an interrupt: the next request must not receive this answer.
            self.close()
            raise

    def close(self) -> None:
        """Stop the process. Idempotent."""
        self._loaded = None
        if self._end is not None:
            self._end()


class _Child:
    """One process, and the host's ends of its pipes."""

    @uninterrupted()
    def __init__(self, kind: str, seconds: float, worker: Path) -> None:
        self._host, self._seconds = os.getpid(), seconds
        self._core: SharedAffinity | None = None
        self._starvation = Starvation()
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes.extend(os.pipe())
            requests, self._requests, self._answers, answers, self._stderr, stderr = pipes
            # Error output beyond the size of the pipe is discarded, and nothing waits for it.
            for descriptor in (self._requests, self._answers, self._stderr, stderr):
                os.set_blocking(descriptor, False)
            descriptors = (str(FIRST_EXTRA_DESCRIPTOR + number) for number in range(2))
            words = [kind, *descriptors, str(int(MEMORY_GIB * (1 << 30)))]
            search = [entry for entry in sys.path if isinstance(entry, str)]
            self.process = CompilerProcess.start(
                [sys.executable, "-I", "-S", str(worker), *words, *search],
                stdout=stderr,
                stderr=stderr,
                extras=[requests, answers],
                writable=(),
                # The worker limits itself once its libraries are loaded.
                limits=Limits(memory=None, cpu=None),
            )
        except BaseException as error:
            for descriptor in pipes:
                os.close(descriptor)
            raise_if_descriptor_limit(error)
            if isinstance(error, CompilerError):
                raise ModelProcessError(str(error)) from error
            raise
        for descriptor in (requests, answers, stderr):
            os.close(descriptor)
        self.open = True
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._answers, select.POLLIN)
        self._writable.register(self._requests, select.POLLOUT)
        for poll in (self._readable, self._writable):
            poll.register(self.process.pidfd, select.POLLIN)
        close_after_fork(self)

    def request(self, letter: bytes, parts: Sequence[bytes], max_bytes: int) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + self._seconds
        rest = memoryview(b"".join((_HEADER.pack(letter, sum(map(len, parts))), *parts)))
        try:
            while rest:
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(self._requests, rest) :]
                    continue
                deadline = self._wait(self._writable, deadline)
        except BrokenPipeError:
            raise self._failure() from None
        data = bytearray()
        expected = _HEADER.size
        answered = b""
        while len(data) < expected:
            try:
                piece = os.read(self._answers, max(expected - len(data), _PIECE))
            except BlockingIOError:
                deadline = self._wait(self._readable, deadline)
                continue
            if not piece:
                raise self._failure()
            data += piece
            if not answered and len(data) >= _HEADER.size:
                answered, size = _HEADER.unpack_from(data)
                if size > max_bytes:
                    raise ModelProcessError(f"expected an answer of at most {max_bytes:,} bytes, got {size:,}")
                expected += size
        if self._core is None:
            # The first request is one long computation; decisions follow in quick succession.
            self._core = SharedAffinity(self.process.pid)
        return answered, bytes(memoryview(data)[_HEADER.size :])

    def _wait(self, poll: select.poll, deadline: float) -> float:
        """Wait for a pipe; return the deadline, which a busy machine extends."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            remaining = self._starvation.grace(self.process.pid, self._seconds)
            if remaining <= 0:
                raise ModelProcessError(f"its process gave no answer within {self._seconds:g} s and was stopped")
            deadline = time.monotonic() + remaining
        if self._core is None:
            interruptible(poll.poll, remaining * 1000)
        else:
            self._core.wait(poll, remaining)
        # A process that is forked at this instant holds the pipe open, so the pipe alone does not show the end.
        if self.process.poll() is not None and not select.select([self._answers], [], [], 0)[0]:
            raise self._failure()
        return deadline

    def _failure(self) -> ModelProcessError:
        """Return the error of a process that has exited, or closed its pipes."""
        ended = select.poll()
        ended.register(self.process.pidfd, select.POLLIN)
        ended.poll(_ENDING_SECONDS * 1000)
        self.process.kill()
        status = self.process.exit_status
        output = b""
        with contextlib.suppress(BlockingIOError):
            output = os.read(self._stderr, _PIECE)
        text = output.decode(errors="replace")
        if is_out_of_memory(text):
            return ModelProcessError(f"it needs more than {MEMORY_GIB:g} GiB of memory, and its process was stopped")
        lines = text.splitlines()
        quoted = "\n".join(line for line in lines if not line.startswith("INFO:")).strip()[-_MAX_QUOTED:]
        signalled = status is not None and status < 0
        how = f"signal {-status} ({signal.Signals(-status).name})" if status and signalled else f"exit status {status}"
        return ModelProcessError(f"its process ended by {how}; use another model" + (f": {quoted}" if quoted else ""))

    @uninterrupted()
    def close(self) -> None:
        """Stop the process and close the pipes; in a forked copy of the host, close the pipes only. Idempotent."""
        if not self.open:
            return
        self.open = False
        cancel_close_after_fork(self)
        if self._host == os.getpid():
            self.process.close()
        else:
            self.process.abandon()
        for descriptor in (self._requests, self._answers, self._stderr):
            os.close(descriptor)
