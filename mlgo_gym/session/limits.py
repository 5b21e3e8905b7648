"""How much one compile may take: its memory, its output and its processor time, kept by the kernel."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
from dataclasses import dataclass

MEMORY_GIB = 16.0
"""The address space of a compile, in GiB, unless the user says otherwise; clang itself needs 0.2."""

PROCESSOR_SECONDS = 3600.0
"""The processor time of a compile, in seconds, unless the user says otherwise."""

_GIB = 1 << 30
_GRACE_SECONDS = 5
_OUT_OF_MEMORY = re.compile(
    "bad_alloc|out of memory|OutOfMemory|memory exhausted|MemoryError|Cannot allocate memory|failed to map segment|"
    "Allocation failed"
)
# What drivers say of a linker of theirs.
_OUT_OF_TIME = re.compile("CPU time limit exceeded|SIGXCPU")
_OUTPUT_TOO_LARGE = re.compile("File size limit exceeded|SIGXFSZ")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one compile; None is no limit.

    Attributes:
        memory: the most address space, in GiB, and the most bytes of any file that it writes: what becomes the object
            is memory too.
        processor: the most processor time, in seconds.
    """

    memory: float | None = MEMORY_GIB
    processor: float | None = PROCESSOR_SECONDS

    def impose(self, pid: int) -> None:
        """Have the kernel keep a process, and whatever it starts, within the limits (prlimit(2)).

        A core dump is never written: it would be as large as what was limited.
        """
        # The process may be gone already; then its exit status is all there is to learn.
        with contextlib.suppress(ProcessLookupError):
            _lower(pid, resource.RLIMIT_CORE, 0)
            if self.memory is not None:
                for limited in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
                    _lower(pid, limited, int(self.memory * _GIB))
            if self.processor is not None:
                seconds = max(1, round(self.processor))
                # What ignores the first signal is killed by the second.
                _lower(pid, resource.RLIMIT_CPU, seconds, seconds + _GRACE_SECONDS)

    def exceeded(self, status: int | None, stderr: str, name: str = "clang") -> str | None:
        """Return which limit ended a process, or one that it has started, as a sentence; None where none did.

        Args:
            status: its exit status, negative for the number of a signal.
            stderr: the tail of what it wrote to standard error.
            name: what it is called.
        """
        if status in (0, None):
            return None
        slow, large = status == -signal.SIGXCPU, status == -signal.SIGXFSZ
        if (slow or _OUT_OF_TIME.search(stderr)) and _is_least(resource.RLIMIT_CPU, self.processor):
            return f"{name} was to need at most {self.processor:g} s of processor time (cpu_limit), and needed more"
        memory = None if self.memory is None else self.memory * _GIB
        if (large or _OUTPUT_TOO_LARGE.search(stderr)) and _is_least(resource.RLIMIT_FSIZE, memory):
            return f"{name} was to write at most {self.memory:g} GiB (memory_limit), and its output is larger"
        if _OUT_OF_MEMORY.search(stderr) and _is_least(resource.RLIMIT_AS, memory):
            return f"{name} was to need at most {self.memory:g} GiB of memory (memory_limit), and needed more"
        return None


DEFAULT_LIMITS = Limits()


def _is_least(limited: int, value: float | None) -> bool:
    """Return whether a limit of ours holds, and not a lower one that this process has and its children inherit."""
    held = resource.getrlimit(limited)[0]
    return value is not None and (held == resource.RLIM_INFINITY or held >= value)


def _lower(pid: int, limited: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, but never above one that holds already."""
    wanted = soft, soft if hard is None else hard
    before = resource.prlimit(pid, limited)
    new = [
        value if held == resource.RLIM_INFINITY else min(value, held)
        for value, held in zip(wanted, before, strict=True)
    ]
    resource.prlimit(pid, limited, (min(new), new[1]))
