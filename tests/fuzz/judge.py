"""Judges the reading of an input: at most a second, 200 MB, and no error but the typed one."""

from __future__ import annotations

import hashlib
import resource
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from mlgo_gym.policies.model_process import ModelProcessError
from tests.fuzz.formats import TYPED, Format

SECONDS = 1.0
"""Maximum CPU time of one input, in seconds."""

MEMORY_KIB = 200 * 1000
"""Maximum growth of the peak resident memory by one input."""

GIVE_UP = 10.0
"""CPU time in seconds after which a reader is interrupted."""

_HERE = str(Path(__file__).parents[2])


class EndlessError(BaseException):
    """A reader that did not finish; not an `Exception`, so that the reader does not catch it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with the reading of an input; the key is that of its cause, the error's type and line."""

    message: str
    key: str


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise EndlessError


class Judge:
    """Reads inputs and measures them.

    `slowest` is the maximum CPU time of an input in seconds, `refused` the number of inputs with the typed error, and
    `ended` the number of these that ended the process of a model runtime.
    """

    def __init__(self, tested: Format) -> None:
        self._read = tested.read
        self.slowest = 0.0
        self.refused = self.ended = 0
        self._peak = 0
        self._start = 0
        signal.signal(signal.SIGVTALRM, _interrupt)

    @property
    def grown_kib(self) -> int:
        """Growth of the peak resident memory since `start()`, in KiB."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._start

    def start(self) -> None:
        """Measure the growth of memory from now."""
        self._peak = self._start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self, data: bytes) -> Finding | None:
        """Read an input; return a finding, or None."""
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP)
        start = time.process_time()
        found = None
        try:
            self._read(data)
        except TYPED as error:
            self.refused += 1
            self.ended += isinstance(error, ModelProcessError)
        except (Exception, EndlessError) as error:  # noqa: BLE001 - any such error is a finding
            found = _describe(error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seconds = time.process_time() - start
        self.slowest = max(self.slowest, seconds)
        if found is None and seconds > SECONDS:
            found = Finding(f"took {seconds:.1f} s", "slow")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if found is None and self._peak and peak - self._peak > MEMORY_KIB:
            found = Finding(f"took {(peak - self._peak) / 1000:.0f} MB", "memory")
        self._peak = max(self._peak, peak)
        return found


def _describe(error: BaseException) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_HERE) and ".venv" not in frame.filename]
    last = ours[-1] if ours else frames[-1]
    place = f"{last.filename.removeprefix(_HERE + '/')}:{last.lineno}"
    key = hashlib.sha256(f"{type(error).__name__} {place}".encode()).hexdigest()[:12]
    return Finding(f"{type(error).__name__} at {place}: {str(error)[:200]}", key)
