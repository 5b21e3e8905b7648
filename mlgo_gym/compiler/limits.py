"""Resource limits: memory, output and CPU time of a compile, and the file descriptors of this process."""

from __future__ import annotations

import contextlib
import errno
import re
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError

MEMORY_GIB = 16.0
"""Default address space of a compile, in GiB; clang itself needs 0.2."""

CPU_SECONDS = 3600.0
"""Default CPU time of a compile, in seconds."""

_GIB = 1 << 30
# Whole messages of LLVM, the C++ and Rust libraries, Python and zig; then of tools after their names. A message about a
# place in a source, or a quoted line of it, may contain the same words.
_OUT_OF_MEMORY = re.compile(
    r"^(?:LLVM ERROR: out of memory"
    r"|terminate called after throwing an instance of 'std::bad_alloc'"
    r"|(?:libc\+\+abi: )?terminating (?:due to|with) uncaught exception of type std::bad_alloc.*"
    r"|memory allocation of \d+ bytes failed"
    r"|MemoryError(?:: .*)?"
    r"|(?:error: )?OutOfMemory"
    r"|(?:(?!\S+:\d+:\d+: )\S[^|]*: )?"
    r"(?:out of memory|memory exhausted|[Cc]annot allocate memory|failed to map segment)[^:|]*"
    r")$",
    re.MULTILINE,
)
# Messages of drivers about their linker.
_OUT_OF_TIME, _OUTPUT_TOO_LARGE = (
    re.compile(rf"^(?!\S+:\d+:\d+: )\S[^|]*[:[\]] ?\[?(?:{name}|{signal})\b.*$", re.MULTILINE)
    for name, signal in (("CPU time limit exceeded", "SIGXCPU"), ("File size limit exceeded", "SIGXFSZ"))
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one compile; None is no limit.

    Attributes:
        memory: Address space, and size of each file that it writes, in GiB. The object file is in memory too.
        cpu: CPU time, in seconds.
    """

    memory: float | None = MEMORY_GIB
    cpu: float | None = CPU_SECONDS

    def apply(self, pid: int) -> None:
        """Apply the limits to a process and the programs that it starts (prlimit(2)); core dumps are disabled."""
        # The process may have exited already.
        with contextlib.suppress(ProcessLookupError):
            _lower(pid, resource.RLIMIT_CORE, 0)
            if self.memory is not None:
                for limited in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
                    _lower(pid, limited, int(self.memory * _GIB))
            if self.cpu is not None:
                seconds = max(1, round(self.cpu))
                # A process that ignores the first signal is killed by the second, after five more seconds.
                _lower(pid, resource.RLIMIT_CPU, seconds, seconds + 5)

    def exceeded(self, status: int | None, stderr: str, name: str = "clang") -> str | None:
        """Return the message of the limit that ended a process, or a program that it started; None for no limit.

        The status is negative for a signal; `stderr` is the tail of its standard error; the message contains `name`.
        """
        if status in (0, None):
            return None
        slow, large = status == -signal.SIGXCPU, status == -signal.SIGXFSZ
        if (slow or _OUT_OF_TIME.search(stderr)) and _is_least(resource.RLIMIT_CPU, self.cpu):
            return f"expected {name} to need at most {self.cpu:g} s of CPU time, got more; raise cpu_limit"
        memory = None if self.memory is None else self.memory * _GIB
        if (large or _OUTPUT_TOO_LARGE.search(stderr)) and _is_least(resource.RLIMIT_FSIZE, memory):
            return f"expected {name} to write at most {self.memory:g} GiB, got more; raise memory_limit"
        if is_out_of_memory(stderr) and _is_least(resource.RLIMIT_AS, memory):
            return f"expected {name} to need at most {self.memory:g} GiB of memory, got more; raise memory_limit"
        return None


DEFAULT_LIMITS = Limits()


def is_out_of_memory(stderr: str) -> bool:
    """Return whether a program reports on standard error that it has no memory left."""
    return _OUT_OF_MEMORY.search(stderr) is not None


def _is_least(limited: int, value: float | None) -> bool:
    """Return whether this limit applies, and not a lower one that this process inherited."""
    held = resource.getrlimit(limited)[0]
    return value is not None and (held == resource.RLIM_INFINITY or held >= value)


def _lower(pid: int, limited: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, at most the current one."""
    held = resource.prlimit(pid, limited)
    new = [
        value if old == resource.RLIM_INFINITY else min(value, old)
        for value, old in zip((soft, soft if hard is None else hard), held, strict=True)
    ]
    resource.prlimit(pid, limited, (min(new), new[1]))


def raise_if_descriptor_limit(error: BaseException) -> None:
    """Raise `MlgoError` with a remedy if an error means that no file descriptor is left."""
    number = error.errno if isinstance(error, OSError) else 0
    if number == errno.ENFILE:
        raise MlgoError("expected about ten free file descriptors, got none on this machine; close some") from error
    if number == errno.EMFILE:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise MlgoError(
            f"expected about ten free file descriptors, got none of the {soft} that this process may have; raise the "
            f"limit with `ulimit -n {hard}` in the shell or resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, "
            f"{hard})), or open fewer environments"
        ) from error


class Starvation:
    """Tells a clang that stalls from one that has no CPU: on an overloaded machine a second's work may take minutes."""

    def __init__(self) -> None:
        self._waited = 0.0

    def grace(self, pid: int, timeout: float) -> float:
        """Return the additional time for a process that was silent for `timeout` seconds, in seconds.

        It is the time that the process has waited for a CPU since the last call, at most the timeout; 0 if that is
        below a tenth of the timeout.
        """
        waited = cpu_wait_seconds(pid)
        more, self._waited = waited - self._waited, waited
        return min(more, timeout) if more > 0.1 * timeout else 0.0


def cpu_wait_seconds(pid: int) -> float:
    """Return the time that the first thread of a process was runnable without a CPU since its start, in seconds.

    0 without `CONFIG_SCHED_INFO`, or if the process has exited. See Linux's Documentation/scheduler/sched-stats.rst,
    `/proc/<pid>/schedstat`.
    """
    try:
        _, nanoseconds, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(nanoseconds) / 1e9
