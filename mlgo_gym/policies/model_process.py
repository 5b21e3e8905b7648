"""A process for somebody else's models, so that what a damaged one does to its runtime happens there.

The runtimes of models are written in C++ and trust their files: a damaged model can crash them, a made one can compute
for ever or take all memory. The process has limits, no right to write a file, and a deadline for each answer; what
comes from it is not trusted either.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import struct
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.errors import CompilerError, PolicyError
from mlgo_gym.session.affinity import SharedAffinity
from mlgo_gym.session.descriptor_limit import refuse_at_descriptor_limit
from mlgo_gym.session.host_fork import close_after_fork, forget
from mlgo_gym.session.limits import Limits
from mlgo_gym.session.process import FIRST_EXTRA_DESCRIPTOR, CompilerProcess
from mlgo_gym.session.starvation import Starvation

SECONDS = 60.0
"""How long a process may take for one answer, which for the first includes its start."""

MEMORY_GIB = 4.0
"""The address space that a model may take, in GiB, beyond that of its runtime."""

WORKER = Path(__file__).with_name("model_worker.py")
"""The program that runs there."""

_HEADER = struct.Struct("<cI")
_PIECE = 1 << 16
_SAID = 2000
_ENDING_SECONDS = 5.0
_OUT_OF_MEMORY = re.compile(rb"bad_alloc|out of memory|MemoryError|Cannot allocate memory")


class ModelProcessError(PolicyError):
    """A model's process that has ended, or had to be ended; the next one is started when it is needed."""


class ModelProcess:
    """Sends requests to `mlgo_gym.policies.model_worker`, and waits for the answers.

    The process is started by the first request, and by the next one after it has ended. It ends with this object, and
    with the host, however that ends. A forked copy of the host starts one of its own.

    Args:
        kind: what runs models there, `"tflite"`, `"onnx"` or `"sb3"`.
        seconds: how long it may take for an answer.

    """

    def __init__(self, kind: str, seconds: float = SECONDS) -> None:
        self._holds: object = None
        self._kind, self._seconds = kind, seconds
        self._child: _Child | None = None
        self._end: weakref.finalize[[], ModelProcess] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 while there is none."""
        return self._child.process.pid if self._child is not None and self._child.open else 0

    @property
    def holds(self) -> object:
        """Which model is there, as those say who send them; None where there is none."""
        return self._holds if self.pid else None

    @holds.setter
    def holds(self, model: object) -> None:
        self._holds = model

    def ask(self, letter: bytes, parts: Sequence[bytes], most: int) -> tuple[bytes, bytes]:
        """Return the letter and the bytes of the answer to a request.

        Args:
            letter: the letter of the request.
            parts: its bytes, in pieces.
            most: the most bytes of an answer.

        Raises:
            ModelProcessError: there is none, and the process was ended; the text is half a sentence about the model.
        """
        child = self._child
        if child is None or not child.open:
            self._holds = None
            self._child = child = _Child(self._kind, self._seconds)
            self._end = weakref.finalize(self, child.close)
        try:
            return child.ask(letter, parts, most)
        except BaseException:
            # Whatever came between a request and its answer: the next answer must not be taken for this one.
            self.close()
            raise

    def close(self) -> None:
        """End the process. Idempotent."""
        self._holds = None
        if self._end is not None:
            self._end()


class _Child:
    """One process, and our ends of its pipes.

    Attributes:
        process: the process.
        open: whether it can be asked.
    """

    def __init__(self, kind: str, seconds: float) -> None:
        self._host, self._seconds = os.getpid(), seconds
        self._core: SharedAffinity | None = None
        self._starvation = Starvation()
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes.extend(os.pipe())
            requests, self._requests, self._answers, answers, self._said, said = pipes
            # What it says beyond what the pipe holds is lost, and never waited for.
            for descriptor in (self._requests, self._answers, self._said, said):
                os.set_blocking(descriptor, False)
            places = (str(FIRST_EXTRA_DESCRIPTOR + number) for number in range(2))
            search = [entry for entry in sys.path if isinstance(entry, str)]
            self.process = CompilerProcess.start(
                [sys.executable, "-I", "-S", str(WORKER), kind, *places, str(int(MEMORY_GIB * (1 << 30))), *search],
                stdout=said,
                stderr=said,
                extras=[requests, answers],
                writable=(),
                # It takes its own, when it knows what its libraries need.
                limits=Limits(memory=None, processor=None),
            )
        except BaseException as error:
            for descriptor in pipes:
                os.close(descriptor)
            refuse_at_descriptor_limit(error)
            if isinstance(error, CompilerError):
                raise ModelProcessError(str(error)) from error
            raise
        for descriptor in (requests, answers, said):
            os.close(descriptor)
        self.open = True
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._answers, select.POLLIN)
        self._writable.register(self._requests, select.POLLOUT)
        for poll in (self._readable, self._writable):
            poll.register(self.process.pidfd, select.POLLIN)
        close_after_fork(self)

    def ask(self, letter: bytes, parts: Sequence[bytes], most: int) -> tuple[bytes, bytes]:
        """Return the answer to a request; see `ModelProcess.ask()`."""
        deadline = time.monotonic() + self._seconds
        rest = memoryview(b"".join((_HEADER.pack(letter, sum(map(len, parts))), *parts)))
        while True:
            try:
                rest = rest[os.write(self._requests, rest) :]
            except BlockingIOError:
                deadline = self._wait(self._writable, deadline)
            except BrokenPipeError:
                raise self._failure() from None
            if not rest:
                break
        data = bytearray()
        wanted = _HEADER.size
        answered = b""
        while len(data) < wanted:
            try:
                piece = os.read(self._answers, max(wanted - len(data), _PIECE))
            except BlockingIOError:
                deadline = self._wait(self._readable, deadline)
                continue
            if not piece:
                raise self._failure()
            data += piece
            if not answered and len(data) >= _HEADER.size:
                answered, size = _HEADER.unpack_from(data)
                if size > most:
                    raise ModelProcessError(f"its answer was to be of {most:,} bytes at most, and is of {size:,}")
                wanted += size
        if self._core is None:
            # To start and to load a model is one long computation; decisions come in quick succession.
            self._core = SharedAffinity(self.process.pid)
        return answered, bytes(memoryview(data)[_HEADER.size :])

    def _wait(self, poll: select.poll, deadline: float) -> float:
        """Wait until the process can be written to or read from; return the deadline, which may be later now."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            remaining = self._starvation.grace(self.process.pid, self._seconds)
            if remaining <= 0:
                raise ModelProcessError(
                    f"it was to answer within {self._seconds:g} s and did not, and its process was ended"
                )
            deadline = time.monotonic() + remaining
        if self._core is None:
            poll.poll(remaining * 1000)
        else:
            self._core.wait(poll, remaining)
        # A copy of our descriptors, in a process that was forked in an instant, keeps a pipe from saying so.
        if self.process.poll() is not None and not select.select([self._answers], [], [], 0)[0]:
            raise self._failure()
        return deadline

    def _failure(self) -> ModelProcessError:
        """Return what is to be said about a process that has ended, or closed its pipes."""
        ended = select.poll()
        ended.register(self.process.pidfd, select.POLLIN)
        ended.poll(_ENDING_SECONDS * 1000)
        self.process.kill()
        status = self.process.exit_status
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._said, _PIECE)
        if _OUT_OF_MEMORY.search(said):
            return ModelProcessError(f"it needs more than {MEMORY_GIB:g} GiB of memory, and its process was ended")
        lines = said.decode(errors="replace").splitlines()
        words = "\n".join(line for line in lines if not line.startswith("INFO:")).strip()[-_SAID:]
        if status is not None and status < 0:
            how = f"the process in which it runs ended by signal {-status} ({signal.Signals(-status).name})"
        else:
            how = f"the process in which it runs ended with exit status {status}"
        return ModelProcessError(f"{how}; take another model" + (f": {words}" if words else ""))

    def close(self) -> None:
        """End the process and close our ends; in a forked copy of the host close the ends alone. Idempotent."""
        if not self.open:
            return
        self.open = False
        forget(self)
        if self._host == os.getpid():
            self.process.close()
        else:
            self.process.abandon()
        for descriptor in (self._requests, self._answers, self._said):
            os.close(descriptor)
