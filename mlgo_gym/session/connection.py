"""All that connects us with one clang: channels, output, record, standard error, and the folder of their names."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.session.channel import Channel
from mlgo_gym.session.compiled import Compiled
from mlgo_gym.session.file_id import FileId, file_id
from mlgo_gym.session.process import FIRST_EXTRA_DESCRIPTOR
from mlgo_gym.session.scratch import make_scratch


class Connection:
    """Our ends of the files that a clang reads and writes; `make()` or `copy()` fills it.

    Attributes:
        channels: one for each advisor.
        output: the object file.
        optimization_record: the optimisation record, -1 without one.
        stderr: where clang's standard error can be read; -1 once it has ended.
        stderr_is_file: whether that is a file, to which clang writes without waking anybody, and not a pipe.
        stderr_write: the end for a clang that is to be started, -1 afterwards.
        lent: what clang finds at `FIRST_EXTRA_DESCRIPTOR` and up.
    """

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.output = self.optimization_record = self.stderr = self.stderr_write = self._folder = -1
        self.stderr_is_file = False
        self.lent: list[int] = []
        self._host = os.getpid()
        self._scratch: Path | None = None
        self._names: list[str] = []

    @classmethod
    def make(cls, advisors: Sequence[Advisor], *, optimization_record: bool, stderr_file: bool = False) -> Connection:
        """Return the connection for a clang that is to be started.

        Args:
            advisors: who asks.
            optimization_record: whether an optimisation record is kept.
            stderr_file: whether standard error is a file: for a clang that says much.
        """
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
                # What was read can be cut away: clang goes on at the end, wherever that is.
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
        """Return the `-cc1` arguments with which clang finds its ends."""
        words = []
        for advisor, channel in zip(advisors, self.channels, strict=True):
            base = channel.base
            if self._folder >= 0:
                # clang opens some channels late: the same name must lead a copy into its own folder.
                number = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self._folder)
                base = f"/proc/self/fd/{number}/{Path(base).name}"
            words += advisor.flags(base)
        if self.optimization_record >= 0:
            number = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self.optimization_record)
            words += ["-opt-record-file", f"/proc/self/fd/{number}", "-opt-record-passes", "regalloc"]
        return [*words, "-o", "-"]

    def copy(self) -> tuple[Connection, dict[FileId, str]]:
        """Return a connection at the same position, for a copy of the clang.

        Returns:
            The connection, whose names are not dropped, and which of its files replaces which of these.
        """
        new = Connection()
        try:
            new._scratch = scratch = make_scratch()
            files: dict[FileId, str] = {}
            for number, channel in enumerate(self.channels):
                twin, places = channel.copy(new._channel_name(number))
                new.channels.append(twin)
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
        """Return a path for a further file; `drop_names()` removes it."""
        self._names.append(f"{self._scratch}/{name}")
        return self._names[-1]

    def _channel_name(self, number: int) -> str:
        base = self.name(f"c{number}")
        self._names[-1:] = [base + ".in", base + ".out"]
        return base

    def descriptors(self) -> list[int]:
        """Return the descriptors on which clang may say something."""
        watched = [*(channel.log for channel in self.channels), -1 if self.stderr_is_file else self.stderr]
        return [descriptor for descriptor in watched if descriptor >= 0]

    def all_channels_open(self) -> bool:
        """Return whether clang has opened all channels."""
        return all(channel.decoder.header is not None for channel in self.channels)

    def compiled(self, stderr: str) -> Compiled:
        """Return what a clang that has ended has left.

        Args:
            stderr: the tail of its standard error.
        """
        return Compiled(_contents(self.output), _contents(self.optimization_record), stderr)

    def drop_names(self) -> None:
        """Remove the folder: both ends of every file are open or will never be. Idempotent."""
        if self._scratch is not None and self._host == os.getpid():
            # To look into the folder would take a descriptor, of which there may be none left.
            with contextlib.suppress(OSError):
                for name in self._names:
                    Path(name).unlink(missing_ok=True)
                self._scratch.rmdir()
            self._names.clear()
            self._scratch = None

    def started(self) -> None:
        """Close what only a clang that is being started needs. Idempotent."""
        if self.stderr_write >= 0:
            os.close(self.stderr_write)
            self.stderr_write = -1

    def close_stderr(self) -> None:
        """Close the reading end of standard error."""
        os.close(self.stderr)
        self.stderr = -1

    def close(self) -> None:
        """Close everything. Idempotent."""
        for channel in self.channels:
            channel.close()
        for descriptor in (self.output, self.optimization_record, self.stderr, self.stderr_write, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self.output = self.optimization_record = self.stderr = self.stderr_write = self._folder = -1
        self.drop_names()


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
