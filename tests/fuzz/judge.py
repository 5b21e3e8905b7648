"""Whether an input was read as it must be: in a second, in 200 MB, and without anything but the typed error."""

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
"""The most processor time for one input."""

MEMORY_KIB = 200 * 1000
"""By how much one input may push up the most memory that was ever resident."""

GIVE_UP = 10.0
"""Seconds of processor time after which a reader is interrupted."""

_HERE = str(Path(__file__).parents[2])


class EndlessError(BaseException):
    """A reader that did not come to an end; not an `Exception`, so that nothing catches it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with the reading of an input.

    Attributes:
        what: one line.
        key: the same for findings of one cause: the error's type and the line that raised it.
    """

    what: str
    key: str


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise EndlessError


class Judge:
    """Reads inputs, one after the other.

    Args:
        tested: the format.

    Attributes:
        slowest: the most processor time that an input took, in seconds.
        grown_kib: how much the process has grown over what it was after the seeds.
        refused: how many inputs raised the typed error.
        ended: how many of these ended the process in which somebody else's runtime reads them.
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
        """By how much the most memory ever resident grew since `begin()`."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._start

    def begin(self) -> None:
        """Take what is resident now as the beginning."""
        self._peak = self._start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self, data: bytes) -> Finding | None:
        """Read an input; return what is wrong, or None."""
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP)
        start = time.process_time()
        found = None
        try:
            self._read(data)
        except TYPED as error:
            self.refused += 1
            self.ended += isinstance(error, ModelProcessError)
        except (Exception, EndlessError) as error:  # noqa: BLE001 - whatever it is, it is what is looked for
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
