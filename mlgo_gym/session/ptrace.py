"""Stop another process, look at its registers, and have it make system calls: ptrace(2) through ctypes.

All requests for one process must come from the thread that seized it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.syscall_abi import SyscallAbi

# include/uapi/linux/ptrace.h and elf.h
_POKE_TEXT, _CONT, _SINGLE_STEP, _DETACH = 4, 7, 9, 17
_GETEVENTMSG, _GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4201, 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_NT_PRSTATUS = 1
_OPTION_TRACE_FORK, _OPTION_EXIT_KILL = 1 << 1, 1 << 20
_EVENT_FORK, _EVENT_STOP = 1, 128

_CLONE_PARENT = 0x8000

_QUICK_LOOKS = 64
"""A stop usually comes within microseconds, in which sleeping would lose more time than it saves."""

_SHORTEST_SLEEP, _LONGEST_SLEEP = 20e-6, 1e-3

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


class Call(NamedTuple):
    """A system call that another process is to make.

    Attributes:
        name: of the system call.
        arguments: at most three; bytes are passed by their address.
        result: what it must return.
    """

    name: str
    arguments: tuple[int | bytes, ...]
    result: int = 0


_ROW = struct.Struct("4q")
"""A system call for `SyscallAbi.batch`: its number, then its result; three arguments."""


def _rows(calls: Sequence[Call], abi: SyscallAbi, texts: int) -> bytes:
    """Return the table of some calls; `texts` is where their bytes lie, each with a zero behind it."""
    table = b""
    for call in calls:
        values = [0, 0, 0]
        for position, argument in enumerate(call.arguments):
            if isinstance(argument, bytes):
                values[position] = texts
                texts += len(argument) + 1
            else:
                values[position] = argument
        table += _ROW.pack(abi.numbers[call.name], *values)
    return table + _ROW.pack(-1, 0, 0, 0)


class Tracee:
    """A process that this thread traces.

    Args:
        pid: a child of ours.
        abi: the processor's way into the kernel.
        deadline: the `time.monotonic()` at which every wait gives up.
        seize: whether to begin tracing; False for a child that its traced parent made, which is traced already.

    Raises:
        OSError: tracing is not permitted, or there is no such process.
    """

    def __init__(self, pid: int, abi: SyscallAbi, deadline: float, *, seize: bool = True) -> None:
        self.pid = pid
        self._abi = abi
        self._deadline = deadline
        self._mask: int | None = None
        self._signal = 0
        self._buffer = (ctypes.c_uint64 * abi.registers)()
        self._vector = _IoVector(ctypes.addressof(self._buffer), ctypes.sizeof(self._buffer))
        if seize:
            # Whoever is half changed when this thread dies must not run on.
            try:
                _ptrace(_SEIZE, pid, 0, _OPTION_TRACE_FORK | _OPTION_EXIT_KILL)
            except PermissionError as error:
                # The answer for one that has ended and was not reaped yet, too.
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    raise
                raise self._ended() from error

    def interrupt(self) -> None:
        """Stop the process, wherever it is.

        Raises:
            SnapshotError: it did not stop in time, or ended.
        """
        _ptrace(_INTERRUPT, self.pid)
        self.wait_for_interrupt()

    def wait_for_interrupt(self) -> None:
        """Wait for the stop that `interrupt()`, or being made by a traced parent, brings.

        Raises:
            SnapshotError: it did not stop in time, or ended.
        """
        while (stop := self._wait()) != signal.SIGTRAP | _EVENT_STOP << 8:
            if stop >> 8:
                raise SnapshotError(f"process {self.pid} is stopped by a signal: let it go on first (SIGCONT)")
            # A signal was under way: let it be taken, the stop comes behind it.
            _ptrace(_CONT, self.pid, 0, stop)

    def resume(self) -> None:
        """Let the process run on."""
        _ptrace(_CONT, self.pid)

    def hold_signals(self) -> None:
        """Have signals wait, in the stopped process and in those that it forks, until it is let go."""
        mask = ctypes.c_uint64()
        _ptrace(_GETSIGMASK, self.pid, ctypes.sizeof(mask), ctypes.addressof(mask))
        self._mask = mask.value
        # To block the signal of traps would reset its handler.
        self._set_mask(2**64 - 1 - (1 << signal.SIGTRAP - 1))

    def _set_mask(self, value: int) -> None:
        mask = ctypes.c_uint64(value)
        _ptrace(_SETSIGMASK, self.pid, ctypes.sizeof(mask), ctypes.addressof(mask))

    def detach(self) -> None:
        """Let the stopped process run on, untraced; a signal that could not wait is delivered."""
        if self._mask is not None:
            self._set_mask(self._mask)
        _ptrace(_DETACH, self.pid, 0, self._signal)

    def release(self) -> None:
        """Let the process run on, untraced, whatever it does; one that cannot be stopped for that is killed."""
        try:
            try:
                self.detach()
            except ProcessLookupError:
                # It has ended; or it runs, and only a stopped process can be detached.
                self._deadline = max(self._deadline, time.monotonic() + _RELEASE_SECONDS)
                self.interrupt()
                self.detach()
        except (ProcessLookupError, SnapshotError):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def registers(self) -> list[int]:
        """Return all registers, in the order of the `NT_PRSTATUS` set."""
        self._vector.length = ctypes.sizeof(self._buffer)
        _ptrace(_GETREGSET, self.pid, _NT_PRSTATUS, ctypes.addressof(self._vector))
        if self._vector.length != ctypes.sizeof(self._buffer):
            raise SnapshotError(
                f"process {self.pid} was to have {ctypes.sizeof(self._buffer)} bytes of registers, found "
                f"{self._vector.length}: it is no 64-bit program of this processor"
            )
        return list(self._buffer)

    def set_registers(self, values: list[int]) -> None:
        """Set all registers."""
        ctypes.memmove(self._buffer, struct.pack(f"{len(values)}Q", *values), ctypes.sizeof(self._buffer))
        self._vector.length = ctypes.sizeof(self._buffer)
        _ptrace(_SETREGSET, self.pid, _NT_PRSTATUS, ctypes.addressof(self._vector))

    def fork(self, at: list[int], meanwhile: Callable[[], T]) -> tuple[Tracee, T]:
        """Have the stopped process fork, and return the new process: stopped, traced, and a child of our own.

        Args:
            at: registers, the program counter at a system call instruction; the process has them afterwards.
            meanwhile: what to do here while the kernel copies page tables there, which takes as long.

        Returns:
            The new process, and what `meanwhile` returned; if it raised, so does this, and there is no new process.

        Raises:
            OSError: it could not be forked.
            SnapshotError: a stop did not come in time.
        """
        self._begin_clone(at)
        try:
            result = meanwhile()
        except BaseException:
            self._end_clone(at).kill()
            raise
        return self._end_clone(at), result

    def _restore(self, at: list[int]) -> None:
        try:
            self.set_registers(at)
        except ProcessLookupError:
            # It has ended; or it did not stop any more, and has registers with which it must not go on.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _begin_clone(self, at: list[int]) -> None:
        abi = self._abi
        registers = at.copy()
        registers[abi.number] = abi.numbers["clone"]
        # With CLONE_PARENT the kernel takes the exit signal from the caller, and we can wait for the copy.
        for register, argument in zip(abi.arguments, (_CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0), strict=False):
            registers[register] = argument
        try:
            self.set_registers(registers)
            _ptrace(_SINGLE_STEP, self.pid)
        except BaseException:
            self._restore(at)
            raise

    def _end_clone(self, at: list[int]) -> Tracee:
        try:
            child = self._wait_for_clone()
        except BaseException:
            self._restore(at)
            raise
        try:
            self._restore(at)
            child.wait_for_interrupt()
        except BaseException:
            child.kill()
            raise
        return child

    def _wait_for_clone(self) -> Tracee:
        abi = self._abi
        stop = self._wait()
        if stop != signal.SIGTRAP | _EVENT_FORK << 8:
            self._expect_trap(stop)
            number = 2**64 - self.registers()[abi.result]
            raise OSError(number, f"clone: {os.strerror(number)}")
        message = ctypes.c_ulong()
        _ptrace(_GETEVENTMSG, self.pid, 0, ctypes.addressof(message))
        child = Tracee(message.value, abi, self._deadline, seize=False)
        child._mask = self._mask
        try:
            _ptrace(_SINGLE_STEP, self.pid)
            self._expect_trap(self._wait())
        except BaseException:
            child.kill()
            raise
        return child

    def run(self, at: list[int], calls: Sequence[Call]) -> None:
        """Have the stopped process make system calls, all in one go.

        Args:
            at: registers, the program counter in executable memory and the stack pointer in writable; the process is
                to be given registers again afterwards.
            calls: the system calls, in order.

        Raises:
            OSError: a system call failed; so may those after it.
            SnapshotError: a system call did something else than was expected, or the process did not come back in time.
        """
        abi = self._abi
        table_size = _ROW.size * (len(calls) + 1)
        texts = b"".join(
            argument + b"\0" for call in calls for argument in call.arguments if isinstance(argument, bytes)
        )
        # Nobody reads what lies below the stack pointer.
        table = (at[abi.stack_pointer] - abi.red_zone - table_size - len(texts)) & ~15
        self.write_memory(table, _rows(calls, abi, table + table_size) + texts)
        code = at[abi.program_counter]
        overwritten = self.read_memory(code, len(abi.batch))
        self._poke(code, abi.batch)
        registers = at.copy()
        registers[abi.batch_table] = table
        self.set_registers(registers)
        self.resume()
        self._expect_trap(self._wait())
        self._poke(code, overwritten)
        results = _ROW.iter_unpack(self.read_memory(table, table_size))
        for call, (result, *_) in zip(calls, results, strict=False):
            if -4096 < result < 0:
                raise OSError(-result, f"{call.name} in process {self.pid}: {os.strerror(-result)}")
            if result != call.result:
                raise SnapshotError(f"{call} in process {self.pid} was to return {call.result}, found {result}")

    def _expect_trap(self, stop: int) -> None:
        if stop != signal.SIGTRAP:
            self._signal = stop if stop < 1 << 8 else 0
            raise SnapshotError(f"process {self.pid} was to trap while it was being copied, found stop {stop:#x}")

    def _poke(self, address: int, data: bytes) -> None:
        """Overwrite bytes, a whole number of words, of code too."""
        for offset in range(0, len(data), 8):
            _ptrace(_POKE_TEXT, self.pid, address + offset, int.from_bytes(data[offset : offset + 8], sys.byteorder))

    def read_memory(self, address: int, size: int) -> bytes:
        """Return bytes of the process's memory."""
        descriptor = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, address)
        finally:
            os.close(descriptor)

    def write_memory(self, address: int, data: bytes) -> None:
        """Overwrite bytes of the process's memory."""
        descriptor = os.open(f"/proc/{self.pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            written = os.pwrite(descriptor, data, address)
        finally:
            os.close(descriptor)
        if written != len(data):
            raise SnapshotError(f"{len(data)} bytes were to be written to process {self.pid}, {written} were")

    def kill(self) -> None:
        """End the process, which is our child, and reap it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _wait(self) -> int:
        """Return the next stop: a signal in the low byte, an event above it. An end is left for others to reap."""
        looks, begin = 0, time.monotonic()
        while True:
            try:
                found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
            except ChildProcessError:
                raise self._ended() from None
            if found is not None:
                return found.si_status
            looks += 1
            if looks <= _QUICK_LOOKS:
                os.sched_yield()
                continue
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            # A tracer is told of stops too, whatever it asks for.
            if found is not None and found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
                raise self._ended()
            now = time.monotonic()
            if now > self._deadline:
                raise SnapshotError(f"process {self.pid} was to stop for its copy in time and did not")
            time.sleep(min(max(_SHORTEST_SLEEP, (now - begin) / 16), _LONGEST_SLEEP))

    def _ended(self) -> SnapshotError:
        return SnapshotError(f"process {self.pid} ended while it was being copied")
