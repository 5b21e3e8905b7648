"""An exact copy of a process that waits in a read (Linux): a fork from outside, with other files in place of its own.

The process is stopped with ptrace(2) inside its `read`, made to fork, and the new process is made to open its own
channels, output and guard before both go on with the same `read`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.file_id import FileId, file_id
from mlgo_gym.session.ptrace import Call, Tracee
from mlgo_gym.session.syscall_abi import SyscallAbi, syscall_abi

_SHORTEST_SLEEP, _LONGEST_SLEEP = 20e-6, 1e-3

_ERESTARTSYS = 512
"""include/linux/errno.h: an interrupted call that is made again unless a signal handler runs."""

_AT_FDCWD = -100

_FDINFO_SIZE = 4096

_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_CLOEXEC | os.O_DIRECTORY | getattr(os, "O_PATH", 0)


@dataclass(frozen=True, slots=True)
class _Descriptor:
    number: int
    file: FileId
    position: int
    flags: int
    is_device: bool


def copy_process(
    pid: int, reading: FileId, make_files: Callable[[], Mapping[FileId, str]], guard: int, timeout: float
) -> int:
    """Return the process id of a copy of a process: a child of ours, in a session of its own, that waits alike.

    Args:
        pid: a child of ours with a single thread that waits, or is about to wait, in a `read`.
        reading: the file that it waits for.
        make_files: returns what the copy opens wherever the original has a file open, by path; at the same position.
            Opening one must not block. Files that are not named stay shared. Called while the kernel copies.
        guard: the descriptor in the process of a file, among those named, that is a FIFO; when its last writer goes,
            the copy and its process group are killed.
        timeout: the longest that all of it may take, in seconds.

    Raises:
        SnapshotError: it cannot be copied; it goes on as if nothing had been tried, and no copy is left.
    """
    abi = syscall_abi()
    if abi is None:
        raise SnapshotError(f"copying a process is known for x86-64 and AArch64, this is {os.uname().machine}")
    try:
        return _copy(pid, abi, reading, make_files, guard, time.monotonic() + timeout)
    except OSError as error:
        raise SnapshotError(f"process {pid} was to be copied with ptrace: {error}; replay its decisions") from error


def _copy(
    pid: int,
    abi: SyscallAbi,
    reading: FileId,
    make_files: Callable[[], Mapping[FileId, str]],
    guard: int,
    deadline: float,
) -> int:
    def find_calls() -> list[Call]:
        descriptors = _descriptors(pid)
        try:
            files = make_files()
        except OSError as error:
            raise SnapshotError(f"the files of a copy of process {pid} were to be made: {error}") from error
        _refuse_shared_output(pid, [descriptor for descriptor in descriptors if descriptor.file not in files])
        return _calls(descriptors, files)

    template = Tracee(pid, abi, deadline)
    try:
        start = _stop_in_read(template, abi, reading, deadline)
        template.hold_signals()
        if len(list(Path(f"/proc/{pid}/task").iterdir())) != 1:
            raise SnapshotError(f"process {pid} has several threads, and a fork copies only one of them")
        child, calls = template.fork(start, find_calls)
        try:
            child.run(start, [*calls, *_guarding(child.pid, guard)])
            child.set_registers(start)
            child.detach()
        except BaseException:
            child.kill()
            raise
    finally:
        template.release()
    return child.pid


def _stop_in_read(tracee: Tracee, abi: SyscallAbi, reading: FileId, deadline: float) -> list[int]:
    """Stop a process in its `read` of a file; return the registers with which it begins that `read` again."""
    pause = _SHORTEST_SLEEP
    while True:
        tracee.interrupt()
        registers = tracee.registers()
        if _rewind(registers, abi) and _is_read_of(tracee, abi, registers, reading):
            return registers
        if time.monotonic() > deadline:
            raise SnapshotError(f"process {tracee.pid} was to wait for an answer, and it is computing")
        tracee.resume()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_SLEEP)


def _rewind(registers: list[int], abi: SyscallAbi) -> bool:
    """Move registers back to the begin of the `read` that they are in; return whether they are in one."""
    if registers[abi.interrupted_number] != abi.numbers["read"]:
        return False
    if not abi.rewound:
        if registers[abi.result] != 2**64 - _ERESTARTSYS:
            return False
        registers[abi.program_counter] -= len(abi.instruction)
        registers[abi.number] = abi.numbers["read"]
        registers[abi.interrupted_number] = 2**64 - 1
    return True


def _is_read_of(tracee: Tracee, abi: SyscallAbi, registers: list[int], reading: FileId) -> bool:
    if tracee.read_memory(registers[abi.program_counter], len(abi.instruction)) != abi.instruction:
        return False
    try:
        return file_id(Path(f"/proc/{tracee.pid}/fd/{registers[abi.arguments[0]]}").stat()) == reading
    except FileNotFoundError:
        return False


def _descriptors(pid: int) -> list[_Descriptor]:
    """Return the open files of a stopped process by ascending number."""
    numbers = sorted(int(link.name) for link in Path(f"/proc/{pid}/fd").iterdir())
    folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return [_descriptor(folder, number) for number in numbers]
    finally:
        os.close(folder)


def _descriptor(folder: int, number: int) -> _Descriptor:
    status = os.stat(f"fd/{number}", dir_fd=folder)
    information = os.open(f"fdinfo/{number}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        lines = os.read(information, _FDINFO_SIZE).decode().splitlines()
    finally:
        os.close(information)
    fields = dict(line.split(":", 1) for line in lines)
    flags, is_device = int(fields["flags"], 8), stat.S_ISCHR(status.st_mode)
    return _Descriptor(number, file_id(status), int(fields["pos"]), flags, is_device)


def _refuse_shared_output(pid: int, shared: list[_Descriptor]) -> None:
    for descriptor in shared:
        # What came through exec lacks the flag, and clang does not use it; a file with the flag it opened itself.
        opened_itself = bool(descriptor.flags & os.O_CLOEXEC)
        if opened_itself and descriptor.flags & os.O_ACCMODE != os.O_RDONLY and not descriptor.is_device:
            name = Path(f"/proc/{pid}/fd/{descriptor.number}").readlink()
            raise SnapshotError(f"process {pid} writes {name}, which a copy would share: leave out the flag for it")


def _calls(descriptors: list[_Descriptor], files: Mapping[FileId, str]) -> list[Call]:
    """Return the system calls with which a copy gets its own files."""
    replaced = [descriptor for descriptor in descriptors if descriptor.file in files]
    taken = {descriptor.number for descriptor in descriptors if descriptor.file not in files}
    calls = [Call("close", (descriptor.number,)) for descriptor in replaced]
    for descriptor in replaced:
        number, flags = descriptor.number, descriptor.flags & _KEPT_FLAGS
        # The kernel takes the lowest free number.
        opened = next(free for free in range(number + 1) if free not in taken)
        calls.append(Call("openat", (_AT_FDCWD, os.fsencode(files[descriptor.file]), flags), opened))
        if opened != number:
            calls.append(Call("dup3", (opened, number, flags & os.O_CLOEXEC), number))
            calls.append(Call("close", (opened,)))
        if descriptor.position:
            calls.append(Call("lseek", (number, descriptor.position, os.SEEK_SET), descriptor.position))
        taken.add(number)
    return calls


def _guarding(pid: int, guard: int) -> list[Call]:
    """Return the system calls with which a process gets a session of its own, which its guard kills."""
    return [
        Call("setsid", (), pid),
        Call("fcntl", (guard, fcntl.F_SETOWN, -pid)),
        Call("fcntl", (guard, fcntl.F_SETSIG, signal.SIGKILL)),
        Call("fcntl", (guard, fcntl.F_SETFL, os.O_ASYNC)),
    ]
