"""Copies a process that waits in a read (Linux): a fork from outside, with its own files.

ptrace(2) stops the process inside its `read` and makes it fork. The new process opens its own channels, output and
guard, and then both continue with the same `read`.
"""

import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.compiler.process import GUARD_DESCRIPTOR, CompilerProcess, FileId, close_descriptors, file_id
from mlgo_gym.compiler.ptrace import (
    AX,
    DI,
    IP,
    LONGEST_SLEEP,
    ORIG_AX,
    SHORTEST_SLEEP,
    SYSCALL_INSTRUCTION,
    SYSTEM_CALLS,
    SystemCall,
    Tracee,
)
from mlgo_gym.errors import SnapshotError

_ERESTARTSYS = 512
"""include/linux/errno.h: an interrupted call that restarts unless a signal handler runs."""

_AT_FDCWD = -100

_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_CLOEXEC | os.O_DIRECTORY | getattr(os, "O_PATH", 0)


@dataclass(frozen=True, slots=True)
class _Descriptor:
    number: int
    file: FileId
    position: int
    flags: int
    is_device: bool


def fork_process(
    process: CompilerProcess, reading: int, make_files: Callable[[], tuple[Mapping[FileId, str], str]], timeout: float
) -> CompilerProcess:
    """Return a guarded copy of a compiler, a child of this process in its own session.

    Args:
        process: A compiler with a single thread that waits in a `read`, or soon will.
        reading: Descriptor of the file that it reads.
        make_files: Returns the path that the copy opens for each file of the original, at the same position, and a free
            path for its guard. Opening must not block. Other files stay shared. Called while the kernel copies.
        timeout: Time limit in seconds.

    Raises:
        SnapshotError: The process cannot be copied; it continues, and there is no copy.
    """
    if os.uname().machine != "x86_64":
        raise SnapshotError(f"expected x86-64 to copy a process, got {os.uname().machine}; replay its decisions")
    deadline = time.monotonic() + timeout
    pid, write_end = process.pid, -1

    def find_calls() -> list[SystemCall]:
        nonlocal write_end
        descriptors = _descriptors(pid)
        try:
            made, guard = make_files()
            os.mkfifo(guard, 0o600)
            # O_RDWR opens without a reader; the guard fires when the last writer is closed.
            write_end = os.open(guard, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            files = {**made, file_id(os.fstat(process.guard)): guard}
        except OSError as error:
            raise SnapshotError(f"cannot make the files of a copy of process {pid}: {error}") from error
        _refuse_shared_output(pid, [descriptor for descriptor in descriptors if descriptor.file not in files])
        return _calls(descriptors, files)

    try:
        template = Tracee(pid, deadline)
        try:
            start = _stop_in_read(template, file_id(os.fstat(reading)), deadline)
            template.hold_signals()
            if len(list(Path(f"/proc/{pid}/task").iterdir())) != 1:
                raise SnapshotError(f"expected a single thread in process {pid}, got several; a fork copies only one")
            child, calls = template.fork(start, find_calls)
            try:
                child.run(start, [*calls, *_guarding(child.pid)])
                child.set_registers(start)
                child.detach()
                return CompilerProcess(child.pid, os.pidfd_open(child.pid), write_end)
            except BaseException:
                child.kill()
                raise
        finally:
            template.release()
    except BaseException as error:
        close_descriptors(write_end)
        if isinstance(error, OSError):
            raise SnapshotError(f"cannot copy process {pid} with ptrace: {error}; replay its decisions") from error
        raise


def _stop_in_read(tracee: Tracee, reading: FileId, deadline: float) -> list[int]:
    """Stop a process in its `read` of a file; return the registers that restart the `read`."""
    pause = SHORTEST_SLEEP
    while True:
        tracee.interrupt()
        registers = tracee.registers()
        if registers[ORIG_AX] == SYSTEM_CALLS["read"] and registers[AX] == 2**64 - _ERESTARTSYS:
            registers[IP] -= len(SYSCALL_INSTRUCTION)
            registers[AX], registers[ORIG_AX] = SYSTEM_CALLS["read"], 2**64 - 1
            if _is_read_of(tracee, registers, reading):
                return registers
        if time.monotonic() > deadline:
            raise SnapshotError(f"expected process {tracee.pid} to wait for an answer, got one that computes")
        tracee.resume()
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_SLEEP)


def _is_read_of(tracee: Tracee, registers: list[int], reading: FileId) -> bool:
    if tracee.read_memory(registers[IP], len(SYSCALL_INSTRUCTION)) != SYSCALL_INSTRUCTION:
        return False
    try:
        return file_id(Path(f"/proc/{tracee.pid}/fd/{registers[DI]}").stat()) == reading
    except FileNotFoundError:
        return False


def _descriptors(pid: int) -> list[_Descriptor]:
    descriptors = []
    for number in sorted(int(link.name) for link in Path(f"/proc/{pid}/fd").iterdir()):
        status = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116 - Path takes several times as long, here and below
        # A path object costs more than the read.
        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as information:  # noqa: PTH123 - see above
            fields = dict(line.split(":", 1) for line in information)
        flags, is_device = int(fields["flags"], 8), stat.S_ISCHR(status.st_mode)
        descriptors.append(_Descriptor(number, file_id(status), int(fields["pos"]), flags, is_device))
    return descriptors


def _refuse_shared_output(pid: int, shared: list[_Descriptor]) -> None:
    for descriptor in shared:
        # Inherited files lack the flag, and clang does not use them; with the flag it opened the file itself.
        opened_itself = bool(descriptor.flags & os.O_CLOEXEC)
        if opened_itself and descriptor.flags & os.O_ACCMODE != os.O_RDONLY and not descriptor.is_device:
            name = Path(f"/proc/{pid}/fd/{descriptor.number}").readlink()
            raise SnapshotError(f"process {pid} writes {name}, which a copy would share; remove the flag for it")


def _calls(descriptors: list[_Descriptor], files: Mapping[FileId, str]) -> list[SystemCall]:
    """Return the system calls that give a copy its own files."""
    replaced = [descriptor for descriptor in descriptors if descriptor.file in files]
    used = {descriptor.number for descriptor in descriptors if descriptor.file not in files}
    calls = [SystemCall("close", (descriptor.number,)) for descriptor in replaced]
    for descriptor in replaced:
        number, flags = descriptor.number, descriptor.flags & _KEPT_FLAGS
        # The kernel uses the lowest free number.
        opened = next(free for free in range(number + 1) if free not in used)
        calls.append(SystemCall("openat", (_AT_FDCWD, os.fsencode(files[descriptor.file]), flags), opened))
        if opened != number:
            calls.append(SystemCall("dup3", (opened, number, flags & os.O_CLOEXEC), number))
            calls.append(SystemCall("close", (opened,)))
        if descriptor.position:
            calls.append(SystemCall("lseek", (number, descriptor.position, os.SEEK_SET), descriptor.position))
        used.add(number)
    return calls


def _guarding(pid: int) -> list[SystemCall]:
    """Return the system calls that give a process its own session, which its guard kills."""
    settings = ((fcntl.F_SETOWN, -pid), (fcntl.F_SETSIG, signal.SIGKILL), (fcntl.F_SETFL, os.O_ASYNC))
    return [SystemCall("setsid", (), pid), *(SystemCall("fcntl", (GUARD_DESCRIPTOR, *setting)) for setting in settings)]
