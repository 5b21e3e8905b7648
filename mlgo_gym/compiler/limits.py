"""Limits of programs: memory, output, CPU time and file descriptors, and by Linux's Landlock the right to write.

Landlock is a second defence against untrusted compile flags. A thread gives up its own rights (landlock(7)), and
programs that it starts inherit that; no privilege is needed. Reading, files that are open already, and memory files are
not restricted.
"""

import contextlib
import ctypes
import errno
import gc
import math
import os
import re
import resource
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from mlgo_gym.compiler.waiting import uninterrupted
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
        cpu: CPU time, in seconds (≥ 1); the kernel counts whole seconds, so it is rounded up.
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
                seconds = math.ceil(self.cpu)
                # A process that ignores the first signal is killed by the second, after five more seconds.
                _lower(pid, resource.RLIMIT_CPU, seconds, seconds + 5)

    def exceeded(self, status: int | None, stderr: str, name: str = "clang") -> tuple[str, str] | None:
        """Return kind and message of the limit that ended a process, or a program that it started; None for no limit.

        The kind is `timeout` for CPU time, else `limit`. The status is negative for a signal; `stderr` is the tail of
        its standard error; the message contains `name`.
        """
        if status in (0, None):
            return None
        slow, large = status == -signal.SIGXCPU, status == -signal.SIGXFSZ
        if (slow or _OUT_OF_TIME.search(stderr)) and _is_least(resource.RLIMIT_CPU, self.cpu):
            message = f"expected {name} to need at most {self.cpu:g} s of CPU time, got more; raise cpu_limit"
            return "timeout", message
        memory = None if self.memory is None else self.memory * _GIB
        if (large or _OUTPUT_TOO_LARGE.search(stderr)) and _is_least(resource.RLIMIT_FSIZE, memory):
            return "limit", f"expected {name} to write at most {self.memory:g} GiB, got more; raise memory_limit"
        if _OUT_OF_MEMORY.search(stderr) and _is_least(resource.RLIMIT_AS, memory):
            message = f"expected {name} to need at most {self.memory:g} GiB of memory, got more; raise memory_limit"
            return "limit", message
        return None


DEFAULT_LIMITS = Limits()


def _is_least(limited: int, value: float | None) -> bool:
    """Return whether this limit applies, and not a lower one that this process inherited."""
    held = resource.getrlimit(limited)[0]
    return value is not None and (held == resource.RLIM_INFINITY or held >= value)


def _lower(pid: int, limited: int, soft: int, hard: int | None = None) -> None:
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


T = TypeVar("T")

# System call numbers, the same on every architecture, and include/uapi/linux/landlock.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BELOW_PATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
_TRUNCATE = 1 << 14
_REFER = 1 << 13
_CHANGING = sum(1 << bit for bit in range(4, 13))  # remove and make files of every kind
_NETWORK = 0b11  # bind and connect TCP sockets, from version 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@lru_cache(maxsize=1)
def confinement_support() -> tuple[bool, str]:
    """Return whether this machine can confine compiles, and by which mechanism or why not."""
    version = _landlock_version()
    if version > 0:
        return True, f"Landlock, version {version}"
    return False, "no Landlock in the kernel; use Linux 5.13 or newer with the security module landlock"


@uninterrupted()
def run_confined(function: Callable[[], T], writable: Sequence[str | os.PathLike[str]]) -> T:
    """Call a function that starts a program, in a new thread, and return its result or raise its exception.

    Where Landlock exists, thread and program can write only the `writable` folders and files. The caller defers
    interrupts too (`uninterrupted()`) if the program must not be lost.
    """
    if not confinement_support()[0]:
        return function()
    ruleset = _make_ruleset(writable)
    outcome: list[tuple[T | None, BaseException | None]] = []

    def work() -> None:
        try:
            if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
            _call(_RESTRICT_SELF, ruleset, 0)
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            outcome.append((None, error))

    # A finaliser in that thread could not write either.
    collects = gc.isenabled()
    gc.disable()
    try:
        thread = threading.Thread(target=work, name="mlgo-gym-confined")
        thread.start()
        thread.join()
    finally:
        if collects:
            gc.enable()
        os.close(ruleset)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # it is what the function returned


def _make_ruleset(writable: Sequence[str | os.PathLike[str]]) -> int:
    version = _landlock_version()
    files = _WRITE_FILE | _CHANGING | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = _Ruleset(files, _NETWORK if version >= 4 else 0)
    size = ctypes.sizeof(_Ruleset) if version >= 4 else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path in (*writable, os.devnull):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rights = files if os.path.isdir(path) else files & (_WRITE_FILE | _TRUNCATE)  # noqa: PTH112 - one word
                rule = _PathRule(rights, descriptor)
                _call(_ADD_RULE, ruleset, _BELOW_PATH, ctypes.byref(rule), 0)
            finally:
                os.close(descriptor)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


@lru_cache(maxsize=1)
def _landlock_version() -> int:
    if os.uname().sysname != "Linux":
        return 0
    return int(_libc().syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number} of Landlock: {os.strerror(error)}")
    return result


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
