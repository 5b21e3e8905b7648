"""Files between this process and one clang: channels, object, optimisation record, and standard error."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.compiler.process.interrupts import uninterrupted
from mlgo_gym.compiler.process.limits import Limits
from mlgo_gym.compiler.process.process import CLANG_ACTION, FIRST_EXTRA_DESCRIPTOR, CompilerProcess, FileId, file_id
from mlgo_gym.compiler.process.scratch import make_scratch, scratch_root
from mlgo_gym.compiler.protocol.channel import Channel
from mlgo_gym.llvm.advisors import Advisor


class Connection:
    """This process's descriptors of the files of one clang; `make()` or `copy()` opens them.

    Attributes:
        channels: One channel per advisor.
        output: Object file.
        optimization_record: Optimisation record; -1 without one.
        stderr: Read end of clang's standard error; -1 once clang has closed it.
        stderr_is_file: Whether standard error is a file, whose writes wake nothing, instead of a pipe.
        stderr_write: Write end for a clang that is started; -1 afterwards.
        closed: Whether `close()` was called.
        lent: Descriptors that clang receives from `FIRST_EXTRA_DESCRIPTOR` on.
    """

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.output = self.optimization_record = self.stderr = self.stderr_write = self._folder = -1
        self.stderr_is_file = False
        self.closed = False
        self.lent: list[int] = []
        self._host = os.getpid()
        self._scratch: Path | None = None
        self._names: list[str] = []

    @classmethod
    def make(cls, advisors: Sequence[Advisor], *, optimization_record: bool, stderr_file: bool = False) -> Connection:
        """Return the connection for a clang that is started next; one that prints much needs `stderr_file`."""
        new = cls()
        new.stderr_is_file = stderr_file
        try:
            new._scratch = make_scratch()
            for number, advisor in enumerate(advisors):
                new.channels.append(Channel(new._channel_name(number), number, advisor))
            new.output = os.memfd_create("mlgo-gym-object", os.MFD_CLOEXEC)
            if optimization_record:
                new.optimization_record = os.memfd_create("mlgo-gym-record", os.MFD_CLOEXEC)
                new.lent.append(new.optimization_record)
            if len(advisors) > 1:
                new._folder = os.open(new._scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                new.lent.append(new._folder)
            if stderr_file:
                new.stderr = os.memfd_create("mlgo-gym-stderr", os.MFD_CLOEXEC)
                # With O_APPEND the file can be truncated after reading.
                fcntl.fcntl(new.stderr, fcntl.F_SETFL, os.O_APPEND)
                new.stderr_write = os.dup(new.stderr)
            else:
                new.stderr, new.stderr_write = os.pipe()
                os.set_blocking(new.stderr, False)
        except BaseException:
            new.close()
            raise
        return new

    def arguments(self, advisors: Sequence[Advisor]) -> list[str]:
        """Return the `-cc1` arguments that name clang's ends."""
        words = []
        for advisor, channel in zip(advisors, self.channels, strict=True):
            base = channel.base
            if self._folder >= 0:
                # clang opens some channels late. A path by descriptor leads a copied clang into its own folder.
                number = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self._folder)
                base = f"/proc/self/fd/{number}/{Path(base).name}"
            words += advisor.flags(base)
        if self.optimization_record >= 0:
            number = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self.optimization_record)
            words += ["-opt-record-file", f"/proc/self/fd/{number}", "-opt-record-passes", "regalloc"]
        return [*words, "-o", "-"]

    def start(self, command: Sequence[str], confined: bool, limits: Limits) -> CompilerProcess:
        """Start clang with its ends of the files; arguments and errors as for `Session`."""
        process = CompilerProcess.start(
            command,
            stdout=self.output,
            stderr=self.stderr_write,
            extras=self.lent,
            writable=[scratch_root()] if confined else None,
            limits=limits,
            withheld=CLANG_ACTION,
        )
        os.close(self.stderr_write)
        self.stderr_write = -1
        return process

    def copy(self) -> tuple[Connection, dict[FileId, str]]:
        """Return a connection at the same position for a copy of clang, and its file's path for each of these files."""
        new = Connection()
        try:
            new._scratch = scratch = make_scratch()
            files: dict[FileId, str] = {}
            for number, channel in enumerate(self.channels):
                copied, places = channel.copy(new._channel_name(number))
                new.channels.append(copied)
                files |= places
            new.output, files[file_id(os.fstat(self.output))] = _copy_file(self.output, new.name("object"))
            if self.optimization_record >= 0:
                new.optimization_record, files[file_id(os.fstat(self.optimization_record))] = _copy_file(
                    self.optimization_record, new.name("record")
                )
            new.stderr_is_file = self.stderr_is_file
            if self.stderr >= 0:
                path = new.name("stderr")
                if self.stderr_is_file:
                    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                    new.stderr = os.open(path, flags, 0o600)
                else:
                    os.mkfifo(path, 0o600)
                    new.stderr = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                files[file_id(os.fstat(self.stderr))] = path
            if self._folder >= 0:
                new._folder = os.open(scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                files[file_id(os.fstat(self._folder))] = str(scratch)
        except BaseException:
            new.close()
            raise
        return new, files

    def name(self, name: str) -> str:
        """Return a path for another file; `remove_files()` removes it."""
        self._names.append(f"{self._scratch}/{name}")
        return self._names[-1]

    def _channel_name(self, number: int) -> str:
        base = self.name(f"c{number}")
        self._names[-1:] = [base + ".in", base + ".out"]
        return base

    def descriptors(self) -> list[int]:
        """Return the descriptors that become readable when clang writes."""
        watched = [*(channel.log for channel in self.channels), -1 if self.stderr_is_file else self.stderr]
        return [descriptor for descriptor in watched if descriptor >= 0]

    def all_channels_open(self) -> bool:
        """Return whether clang has opened all channels."""
        return all(channel.decoder.header is not None for channel in self.channels)

    def result(self, stderr: str) -> CompileResult:
        """Return the result of a clang that has exited, with the tail of its standard error."""
        return CompileResult(_contents(self.output), _contents(self.optimization_record), stderr)

    @uninterrupted()
    def remove_files(self) -> None:
        """Remove the folder: clang has opened the files, or has exited. Idempotent."""
        if self._scratch is not None and self._host == os.getpid():
            # Listing the folder would take a descriptor, and none may be left.
            with contextlib.suppress(OSError):
                for name in self._names:
                    Path(name).unlink(missing_ok=True)
                self._scratch.rmdir()
            self._names.clear()
            self._scratch = None

    def close_stderr(self) -> None:
        """Close the read end of standard error."""
        os.close(self.stderr)
        self.stderr = -1

    def close(self) -> None:
        """Close everything. Idempotent."""
        self.closed = True
        for channel in self.channels:
            channel.close()
        for descriptor in (self.output, self.optimization_record, self.stderr, self.stderr_write, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self.output = self.optimization_record = self.stderr = self.stderr_write = self._folder = -1
        self.remove_files()


def _contents(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0) if descriptor >= 0 else b""


def _copy_file(original: int, path: str) -> tuple[int, str]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        remaining = os.fstat(original).st_size
        offset = 0
        while remaining > offset:
            offset += os.sendfile(descriptor, original, offset, remaining - offset)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, path


@dataclass(frozen=True, slots=True)
class CompileResult:
    """Output of a finished compile.

    Attributes:
        object_bytes: The object file.
        optimization_record: The optimisation record (YAML); empty unless requested.
        stderr: Tail of standard error.
    """

    object_bytes: bytes
    optimization_record: bytes
    stderr: str
