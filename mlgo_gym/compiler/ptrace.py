"""Stops another process, reads its registers, and lets it make system calls: ptrace(2) through ctypes, for x86-64.

All requests for one process must come from the thread that seized it. Constants are from Linux's headers
include/uapi/linux/ptrace.h and elf.h, arch/x86/include/asm/user_64.h and its table of system calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from mlgo_gym.errors import SnapshotError

_POKE_TEXT, _CONT, _SINGLE_STEP, _DETACH = 4, 7, 9, 17
_GETEVENTMSG, _GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4201, 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_NT_PRSTATUS = 1
_OPTION_TRACE_FORK, _OPTION_EXIT_KILL = 1 << 1, 1 << 20
_EVENT_FORK, _EVENT_STOP = 1, 128

_CLONE_PARENT = 0x8000

# Registers, as indices into user_regs_struct: r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp
# ss fs_base gs_base ds es fs gs.
REGISTERS = 27
R12, AX, DX, SI, DI, ORIG_AX, IP, SP = 3, 10, 12, 13, 14, 15, 16, 19
R10, R8, R9 = 7, 9, 8

SYSTEM_CALLS = {"read": 0, "close": 3, "lseek": 8, "clone": 56, "fcntl": 72, "setsid": 112, "openat": 257, "dup3": 292}
SYSCALL_INSTRUCTION = b"\x0f\x05"
_RED_ZONE = 128
"""Bytes below the stack pointer that are in use."""

_BATCH = bytes.fromhex(
    "498b0424"  # next: mov rax, [r12]
    "4885c0"  # test rax, rax
    "781b"  # js done
    "498b7c2408"  # mov rdi, [r12+8]
    "498b742410"  # mov rsi, [r12+16]
    "498b542418"  # mov rdx, [r12+24]
    "0f05"  # syscall
    "49890424"  # mov [r12], rax
    "4983c420"  # add r12, 32
    "ebdc"  # jmp next
    "cccccccc"  # done: int3
)
"""Machine code, a multiple of 8 bytes, that makes the calls of a table of `_ROW` and then traps.

A result replaces the number of its call. A negative number ends the table.
"""

_ROW = struct.Struct("4q")
"""A system call: its number, and three arguments."""

_BUSY_POLLS = 64
"""Number of polls without sleep: a stop usually takes microseconds."""

SHORTEST_SLEEP, LONGEST_SLEEP = 20e-6, 1e-3

_RELEASE_SECONDS = 1.0

T = TypeVar("T")


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@lru_cache(maxsize=1)
def _function() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).ptrace
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return function


def _ptrace(request: int, pid: int, address: int = 0, data: object = 0) -> None:
    if _function()(request, pid, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace request {request:#x}: {os.strerror(number)}")


class SystemCall(NamedTuple):
    """A system call for another process: its name, at most three arguments, and the expected result.

    Bytes are passed by address.
    """

    name: str
    arguments: tuple[int | bytes, ...]
    result: int = 0


def _rows(calls: Sequence[SystemCall], texts: int) -> bytes:
    """Return the table of system calls; `texts` is the address of their zero-terminated bytes."""
    table = b""
    for call in calls:
        values = [0, 0, 0]
        for position, argument in enumerate(call.arguments):
            if isinstance(argument, bytes):
                values[position] = texts
                texts += len(argument) + 1
            else:
                values[position] = argument
        table += _ROW.pack(SYSTEM_CALLS[call.name], *values)
    return table + _ROW.pack(-1, 0, 0, 0)


class Tracee:
    """A child process that this thread traces; the deadline of every wait is on the monotonic clock.

    A child of a traced process is traced already: `seize=False`. Raises `OSError` if tracing is not permitted.
    """

    def __init__(self, pid: int, deadline: float, *, seize: bool = True) -> None:
        self.pid = pid
        self._deadline = deadline
        self._mask: int | None = None
        self._signal = 0
        self._buffer = (ctypes.c_uint64 * REGISTERS)()
        self._vector = _IoVector(ctypes.addressof(self._buffer), ctypes.sizeof(self._buffer))
        if seize:
            # A half-changed process must not continue after this thread has died.
            try:
                _ptrace(_SEIZE, pid, 0, _OPTION_TRACE_FORK | _OPTION_EXIT_KILL)
            except PermissionError as error:
                # Also the error for a process that has exited and is not reaped.
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    raise
                raise self._exited() from error

    def interrupt(self) -> None:
        """Stop the process; errors as for `wait_for_interrupt()`."""
        _ptrace(_INTERRUPT, self.pid)
        self.wait_for_interrupt()

    def wait_for_interrupt(self) -> None:
        """Wait for the stop after `interrupt()`, or of a new child; raise `SnapshotError` if there is none in time."""
        while (stop := self._wait()) != signal.SIGTRAP | _EVENT_STOP << 8:
            if stop >> 8:
                raise SnapshotError(
                    f"expected process {self.pid} to run, got one stopped by a signal; send it SIGCONT first"
                )
            # A signal arrived first: deliver it, the stop follows.
            _ptrace(_CONT, self.pid, 0, stop)

    def resume(self) -> None:
        """Continue the process."""
        _ptrace(_CONT, self.pid)

    def hold_signals(self) -> None:
        """Block signals in the stopped process and in its forks until `detach()`."""
        # Blocking SIGTRAP would reset its handler.
        self._mask = self._signal_mask(_GETSIGMASK)
        self._signal_mask(_SETSIGMASK, 2**64 - 1 - (1 << signal.SIGTRAP - 1))

    def _signal_mask(self, request: int, value: int = 0) -> int:
        mask = ctypes.c_uint64(value)
        _ptrace(request, self.pid, ctypes.sizeof(mask), ctypes.addressof(mask))
        return mask.value

    def detach(self) -> None:
        """Continue the stopped process untraced, and deliver a signal that could not be blocked."""
        if self._mask is not None:
            self._signal_mask(_SETSIGMASK, self._mask)
        _ptrace(_DETACH, self.pid, 0, self._signal)

    def release(self) -> None:
        """Continue the process untraced, whatever its state; kill it if it cannot be stopped for that."""
        try:
            try:
                self.detach()
            except ProcessLookupError:
                # It has exited; or it runs, and only a stopped process can be detached.
                self._deadline = max(self._deadline, time.monotonic() + _RELEASE_SECONDS)
                self.interrupt()
                self.detach()
        except (ProcessLookupError, SnapshotError):
            self._send_kill()

    def registers(self) -> list[int]:
        """Return all registers in the order of the `NT_PRSTATUS` set."""
        self._vector.length = ctypes.sizeof(self._buffer)
        _ptrace(_GETREGSET, self.pid, _NT_PRSTATUS, ctypes.addressof(self._vector))
        if self._vector.length != ctypes.sizeof(self._buffer):
            raise SnapshotError(
                f"expected {ctypes.sizeof(self._buffer)} bytes of registers in process {self.pid}, got "
                f"{self._vector.length}; only 64-bit programs of this processor can be copied"
            )
        return list(self._buffer)

    def set_registers(self, values: list[int]) -> None:
        """Set all registers."""
        ctypes.memmove(self._buffer, struct.pack(f"{len(values)}Q", *values), ctypes.sizeof(self._buffer))
        self._vector.length = ctypes.sizeof(self._buffer)
        _ptrace(_SETREGSET, self.pid, _NT_PRSTATUS, ctypes.addressof(self._vector))

    def fork(self, at: list[int], meanwhile: Callable[[], T]) -> tuple[Tracee, T]:
        """Fork the stopped process; return the new process, stopped, traced and a child of this one.

        The registers `at` have the program counter at a system call instruction; they are restored afterwards.
        `meanwhile` is called while the kernel copies page tables, and its result is returned too. Raises `OSError` if
        the process cannot be forked, and `SnapshotError` if it did not stop in time.
        """
        registers = at.copy()
        for register in (DI, SI, DX, R10, R8, R9):
            registers[register] = 0
        # With CLONE_PARENT the copy is a child of this process.
        registers[AX], registers[DI] = SYSTEM_CALLS["clone"], _CLONE_PARENT | signal.SIGCHLD
        child = None
        try:
            try:
                self.set_registers(registers)
                _ptrace(_SINGLE_STEP, self.pid)
                try:
                    result = meanwhile()
                finally:
                    child = self._wait_for_clone()
            finally:
                self._restore(at)
            child.wait_for_interrupt()
        except BaseException:
            if child is not None:
                child.kill()
            raise
        return child, result

    def _restore(self, at: list[int]) -> None:
        try:
            self.set_registers(at)
        except ProcessLookupError:
            # It has exited; or it runs with registers that it must not continue with.
            self._send_kill()

    def _send_kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _wait_for_clone(self) -> Tracee:
        stop = self._wait()
        if stop != signal.SIGTRAP | _EVENT_FORK << 8:
            self._expect_trap(stop)
            number = 2**64 - self.registers()[AX]
            raise OSError(number, f"clone: {os.strerror(number)}")
        message = ctypes.c_ulong()
        _ptrace(_GETEVENTMSG, self.pid, 0, ctypes.addressof(message))
        child = Tracee(message.value, self._deadline, seize=False)
        child._mask = self._mask
        try:
            _ptrace(_SINGLE_STEP, self.pid)
            self._expect_trap(self._wait())
        except BaseException:
            child.kill()
            raise
        return child

    def run(self, at: list[int], calls: Sequence[SystemCall]) -> None:
        """Let the stopped process make system calls, all at once; its registers must be restored afterwards.

        `at` has the program counter in executable memory and the stack pointer in writable memory.

        Raises:
            OSError: A system call failed; later ones were made nevertheless.
            SnapshotError: A system call returned an unexpected result, or the process did not stop in time.
        """
        table_size = _ROW.size * (len(calls) + 1)
        texts = b"".join(
            argument + b"\0" for call in calls for argument in call.arguments if isinstance(argument, bytes)
        )
        # Memory below the stack pointer and its red zone is unused.
        table = (at[SP] - _RED_ZONE - table_size - len(texts)) & ~15
        self.write_memory(table, _rows(calls, table + table_size) + texts)
        code = at[IP]
        overwritten = self.read_memory(code, len(_BATCH))
        self._poke(code, _BATCH)
        registers = at.copy()
        registers[R12] = table
        self.set_registers(registers)
        self.resume()
        self._expect_trap(self._wait())
        self._poke(code, overwritten)
        results = _ROW.iter_unpack(self.read_memory(table, table_size))
        for call, (result, *_) in zip(calls, results, strict=False):
            if -4096 < result < 0:
                raise OSError(-result, f"{call.name} in process {self.pid}: {os.strerror(-result)}")
            if result != call.result:
                raise SnapshotError(f"expected {call} in process {self.pid} to return {call.result}, got {result}")

    def _expect_trap(self, stop: int) -> None:
        if stop != signal.SIGTRAP:
            self._signal = stop if stop < 1 << 8 else 0
            raise SnapshotError(f"expected a trap of process {self.pid}, got stop {stop:#x}")

    def _poke(self, address: int, data: bytes) -> None:
        """Overwrite memory, also code; the size must be a multiple of 8 bytes."""
        for offset in range(0, len(data), 8):
            _ptrace(_POKE_TEXT, self.pid, address + offset, int.from_bytes(data[offset : offset + 8], sys.byteorder))

    def read_memory(self, address: int, size: int) -> bytes:
        """Return memory of the process."""
        with self._memory(os.O_RDONLY) as descriptor:
            return os.pread(descriptor, size, address)

    def write_memory(self, address: int, data: bytes) -> None:
        """Overwrite memory of the process."""
        with self._memory(os.O_WRONLY) as descriptor:
            written = os.pwrite(descriptor, data, address)
        if written != len(data):
            raise SnapshotError(f"expected to write {len(data)} bytes to process {self.pid}, wrote {written}")

    @contextlib.contextmanager
    def _memory(self, flags: int) -> Iterator[int]:
        descriptor = os.open(f"/proc/{self.pid}/mem", flags | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def kill(self) -> None:
        """Kill the process, a child of this one, and reap it."""
        self._send_kill()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _wait(self) -> int:
        """Return the next stop: a signal in the low byte, an event above it. An exited process is not reaped."""
        polls, begin = 0, time.monotonic()
        while True:
            try:
                status = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
            except ChildProcessError:
                raise self._exited() from None
            if status is not None:
                return status.si_status
            polls += 1
            if polls <= _BUSY_POLLS:
                os.sched_yield()
                continue
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            # waitid reports stops to a tracer too, whatever it requests.
            if status is not None and status.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
                raise self._exited()
            now = time.monotonic()
            if now > self._deadline:
                raise SnapshotError(f"process {self.pid} did not stop for its copy in time")
            time.sleep(min(max(SHORTEST_SLEEP, (now - begin) / 16), LONGEST_SLEEP))

    def _exited(self) -> SnapshotError:
        return SnapshotError(f"process {self.pid} exited during the copy")
