"""Files between this process and one clang: channels, object, optimisation record, standard error, scratch folder."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path

from mlgo_clang.files import contents_of, message_file, scratch_parent
from mlgo_gym.compiler.channel import Channel
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.compiler.process import (
    CLANG_ACTION,
    FIRST_EXTRA_DESCRIPTOR,
    CompilerProcess,
    FileId,
    close_descriptors,
    file_id,
)
from mlgo_gym.compiler.waiting import interruptible, uninterrupted
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.storage.temporary_folders import make_process_folder

_PREFIX = "mlgo-gym-"


def make_scratch() -> Path:
    """Make an empty folder for one compile in the scratch root, or raise `OSError`; the caller removes it."""
    try:
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))
    except FileNotFoundError:
        # Another program has removed the root.
        _make_root.cache_clear()
        return Path(tempfile.mkdtemp(prefix="", dir=scratch_root()))


def scratch_root() -> Path:
    """Return the folder with all scratch folders of this process; it is removed when the process exits."""
    return _make_root(scratch_parent(), os.getpid())


@lru_cache(maxsize=1)
def _make_root(parent: str, pid: int) -> Path:
    assert pid == os.getpid()
    root = make_process_folder(Path(parent), _PREFIX)
    # Unlike atexit this also runs in processes that multiprocessing starts.
    Finalize(None, shutil.rmtree, args=(root,), kwargs={"ignore_errors": True}, exitpriority=0)
    return root


class Connection:
    """This process's descriptors of the files of one clang; `make()` or `copy()` opens them.

    Attributes:
        channels: One channel per advisor.
        outputs: Files in memory that clang writes: `object`, and on request `frames` and `record`.
        stderr: Read end of clang's standard error; -1 once clang has closed it.
        stderr_is_file: Whether standard error is a file, whose writes wake nothing, instead of a pipe.
        stderr_write: Write end for a clang that is started; -1 afterwards.
        closed: Whether `close()` was called.
        lent: Descriptors that clang receives from `FIRST_EXTRA_DESCRIPTOR` on.
    """

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.outputs: dict[str, int] = {}
        self.stderr = self.stderr_write = self._folder = -1
        self.stderr_is_file = False
        self.closed = False
        self.lent: list[int] = []
        self._poll = select.poll()
        self._host = os.getpid()
        self._scratch: Path | None = None
        self._names: list[str] = []

    @classmethod
    def make(
        cls, advisors: Sequence[Advisor], *, stack_usage: bool, optimization_record: bool, stderr_file: bool = False
    ) -> Connection:
        """Return the connection for a clang that is started next; one that prints much needs `stderr_file`."""
        new = cls()
        new.stderr_is_file = stderr_file
        try:
            new._scratch = make_scratch()
            for index, advisor in enumerate(advisors):
                new.channels.append(Channel(new._channel_base(index), index, advisor))
            # The frames are the first of the lent descriptors, as in `STACK_USAGE_FLAGS`.
            requested = {"object": True, "frames": stack_usage, "record": optimization_record}
            for name in (name for name, wanted in requested.items() if wanted):
                new.outputs[name] = os.memfd_create(f"mlgo-gym-{name}", os.MFD_CLOEXEC)
            new.lent += [descriptor for name, descriptor in new.outputs.items() if name != "object"]
            if len(advisors) > 1:
                new._folder = os.open(new._scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                new.lent.append(new._folder)
            if stderr_file:
                new.stderr = message_file()
                new.stderr_write = os.dup(new.stderr)
            else:
                new.stderr, new.stderr_write = os.pipe()
                os.set_blocking(new.stderr, False)
        except BaseException:
            new.close()
            raise
        return new

    def arguments(self) -> list[str]:
        """Return the `-cc1` arguments that name clang's ends."""
        words = []
        for channel in self.channels:
            base = channel.base
            if self._folder >= 0:
                # clang opens some channels late. A path by descriptor leads a copied clang into its own folder.
                descriptor = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self._folder)
                base = f"/proc/self/fd/{descriptor}/{Path(base).name}"
            words += channel.advisor.flags(base)
        if "record" in self.outputs:
            descriptor = FIRST_EXTRA_DESCRIPTOR + self.lent.index(self.outputs["record"])
            words += ["-opt-record-file", f"/proc/self/fd/{descriptor}", "-opt-record-passes", "regalloc"]
        return [*words, "-o", "-"]

    def start(self, command: Sequence[str], confined: bool, limits: Limits) -> CompilerProcess:
        """Start clang with its ends of the files; arguments and errors as for `Session`."""
        process = CompilerProcess.start(
            command,
            stdout=self.outputs["object"],
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
            for index, channel in enumerate(self.channels):
                copied, paths = channel.copy(new._channel_base(index))
                new.channels.append(copied)
                files |= paths
            for name, descriptor in self.outputs.items():
                new.outputs[name] = _copy_file(descriptor, new.name(name), files)
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

    def _channel_base(self, index: int) -> str:
        base = self.name(f"c{index}")
        self._names[-1:] = [base + ".in", base + ".out"]
        return base

    def descriptors(self) -> list[int]:
        """Return the descriptors that become readable when clang writes."""
        watched = [*(channel.log for channel in self.channels), -1 if self.stderr_is_file else self.stderr]
        return [descriptor for descriptor in watched if descriptor >= 0]

    def watch(self, pidfd: int) -> None:
        """Let `wait()` watch the descriptors, and the exit of clang."""
        for descriptor in (*self.descriptors(), pidfd):
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Wait until clang writes or exits; handlers of signals may raise meanwhile."""
        interruptible(self._poll.poll, seconds * 1000)

    def follow(self, channel: Channel) -> None:
        """Follow the start and the end of a log after it was read."""
        if channel.ended and channel.log >= 0:
            # A closed FIFO stays readable and would wake every wait.
            self._unwatch(channel.log, channel.close_log)
        self.remove_files_once_open()

    @uninterrupted()
    def _unwatch(self, descriptor: int, close: Callable[[], None]) -> None:
        # A session that failed to start may not watch it yet.
        with contextlib.suppress(KeyError):
            self._poll.unregister(descriptor)
        close()

    def remove_files_once_open(self) -> None:
        """Remove the folder if clang has opened all channels."""
        if self._scratch is not None and all(channel.decoder.header is not None for channel in self.channels):
            self.remove_files()

    def result(self, stderr: str) -> CompileResult:
        """Return the result of a clang that has exited, with the tail of its standard error."""
        written = {name: contents_of(descriptor) for name, descriptor in self.outputs.items()}
        return CompileResult(written.get("object", b""), written.get("record", b""), stderr, written.get("frames"))

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

    def end_stderr(self) -> None:
        """Close the read end of standard error after clang has closed it."""
        self._unwatch(self.stderr, self._close_stderr)

    def _close_stderr(self) -> None:
        os.close(self.stderr)
        self.stderr = -1

    def close(self) -> None:
        """Close everything. Idempotent."""
        self.closed = True
        for channel in self.channels:
            channel.close()
        close_descriptors(*self.outputs.values(), self.stderr, self.stderr_write, self._folder)
        self.outputs, self.stderr, self.stderr_write, self._folder = {}, -1, -1, -1
        self.remove_files()


def _copy_file(original: int, path: str, files: dict[FileId, str]) -> int:
    files[file_id(os.fstat(original))] = path
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        size, offset = os.fstat(original).st_size, 0
        while size > offset:
            offset += os.sendfile(descriptor, original, offset, size - offset)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@dataclass(frozen=True, slots=True)
class CompileResult:
    """Output of a finished compile.

    Attributes:
        object_bytes: The object file.
        optimization_record: The optimisation record (YAML); empty unless requested.
        stderr: Tail of standard error.
        stack_usage: The stack frames, as of `-fstack-usage`; None unless requested by `STACK_USAGE_FLAGS`.
    """

    object_bytes: bytes
    optimization_record: bytes
    stderr: str
    stack_usage: bytes | None = None
