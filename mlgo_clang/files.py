"""Files and folders that processes share: the cache, atomic writes, untrusted files, locks, folders of one process.

A build starts `mlgo-clang` hundreds of times, so names are strings: pathlib takes longer to import than all of it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

MAX_BYTES = 1 << 28
"""Default maximum size of a file that is read into memory, in bytes."""

_DAY = 86400.0
"""Age in seconds after which a folder of a process that is not visible from here is removed."""

_UNKNOWN_HOST = "unknown"
_CHANNELS = "mlgo-clang-"
_PAUSE, _LARGEST_PAUSE = 0.01, 0.2


def cache_folder() -> str:
    """Return the cache folder, which may be deleted: `$MLGO_CACHE`, or `mlgo-gym` in the user's cache folder.

    A relative `$XDG_CACHE_HOME` is ignored, as its specification demands. A user without a home folder has a cache that
    cannot be written.
    """
    named = os.environ.get("MLGO_CACHE")
    parent = os.environ.get("XDG_CACHE_HOME", "").strip()
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    folder = named or os.path.join(parent if os.path.isabs(parent) else default, "mlgo-gym")
    if folder.startswith("~"):
        folder = os.path.expanduser(folder)
        return folder if os.path.isabs(folder) and os.environ.get("HOME") != "" else f"{os.devnull}/no-home-folder"
    return folder


def working_folder() -> str:
    """Return the working folder; empty if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def file_identity(status: os.stat_result) -> str:
    """Return a text that changes when a file changes: its device, inode, size and time."""
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def digest_of(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    # The import of hashlib takes 7 ms, and that of its part 0.2 ms.
    part = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
    try:
        module = __import__("hashlib" if "hashlib" in sys.modules else part)
    except ImportError:
        module = __import__("hashlib")
    return str(module.sha256(data).hexdigest())


def write_checked(path: str, data: bytes) -> None:
    """Write a file for `read_checked()` atomically; raise `OSError` if that fails."""
    write_atomically(path, f"{_digest_for(path, data)}\n".encode() + data)


def write_cached(path: str, data: bytes) -> None:
    """Write a file as `write_checked()` does, if the cache can be written."""
    try:
        write_checked(path, data)
    except OSError:
        return


def read_checked(path: str) -> bytes | None:
    """Return the data that `write_checked()` wrote to this path; None without it, and if it was changed or moved."""
    try:
        digest, _, data = read_untrusted(path).partition(b"\n")
    except OSError:
        return None
    return data if digest == _digest_for(path, data).encode() else None


def _digest_for(path: str, data: bytes) -> str:
    # With the name, so that a file is not taken for another one.
    return digest_of(b"%s\n%s" % (os.fsencode(os.path.basename(path)), data))


def write_atomically(path: str, data: bytes, mode: int = 0o666, *, durable: bool = False) -> None:
    """Write a file atomically: readers, concurrent writers and a kill leave all of it or none.

    With `durable` also a power cut does, which takes some milliseconds.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder or ".", exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(8).hex()}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        remove_file(temporary)
        raise


def write_program(path: str, data: bytes) -> bool:
    """Write a file of the cache, which may be a program, unless it has these bytes; return whether it is there."""
    try:
        if os.path.exists(path) and read_untrusted(path) == data:
            return True
        write_atomically(path, data, 0o700)
    except OSError:
        return False
    return True


def remove_file(path: str) -> None:
    """Remove a file if it can be removed."""
    try:
        os.unlink(path)
    except OSError:
        return


def open_untrusted(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or a link to one, for reading in binary; raise `OSError` for anything else.

    A pipe would block until a writer opens it, and a device may have no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file, got a pipe, a device or a folder", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_untrusted(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a regular file; raise `OSError` for anything else, and above `max_bytes`."""
    with open_untrusted(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        size = os.stat(path).st_size
        raise OSError(errno.EFBIG, f"expected at most {max_bytes:,} bytes, got {size:,}", os.fspath(path))
    return data


def host_id() -> str:
    """Return a short name of this boot and process namespace: process ids are unique only within both."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            # Short, because some folders become paths of sockets.
            return f"{file.read(8).decode()}{os.stat('/proc/self/ns/pid').st_ino & 0xFFFF:04x}"
    except OSError:
        return _UNKNOWN_HOST


def process_prefix(prefix: str) -> str:
    """Return the prefix of this process's folders: `PREFIXpid-host-`, where the host includes the pid namespace."""
    return f"{prefix}{os.getpid()}-{host_id()}-"


def abandoned_folders(parent: str, prefix: str) -> Iterator[str]:
    """Yield the folders of this user's processes that have exited; folders of another host after a day."""
    host = host_id()
    for name in os.listdir(parent):
        pid, _, rest = name.removeprefix(prefix).partition("-")
        if not name.startswith(prefix) or not pid.isdigit():
            continue
        folder = os.path.join(parent, name)
        try:
            status = os.stat(folder)
        except OSError:
            continue
        is_visible = host != _UNKNOWN_HOST and rest.startswith(f"{host}-")
        has_exited = not os.path.exists(f"/proc/{pid}") if is_visible else time.time() - status.st_mtime > _DAY
        if has_exited and status.st_uid == os.getuid():
            yield folder


def scratch_parent() -> str:
    """Return the parent of folders with channels: `/dev/shm` if it is writable, else the folder of temporary files."""
    shared_memory = "/dev/shm"  # noqa: S108 - folders in it are readable for this user alone
    if os.access(shared_memory, os.W_OK | os.X_OK):
        return shared_memory
    import tempfile

    return tempfile.gettempdir()


def make_scratch() -> str:
    """Make an empty folder for the channels of one compile of `mlgo-clang`, after removing those of killed ones.

    The caller removes it. The folders of `mlgo_gym` have another prefix: it finds compilers by them.
    """
    parent = scratch_parent()
    for folder in abandoned_folders(parent, _CHANNELS):
        remove_folder(folder)
    folder = os.path.join(parent, process_prefix(_CHANNELS) + os.urandom(8).hex())
    os.mkdir(folder, 0o700)
    return folder


def remove_folder(folder: str) -> None:
    """Remove a folder with what it contains; what cannot be removed stays."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_folder(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        return


def lock(descriptor: int, seconds: float) -> bool:
    """Lock a file exclusively, as flock(2) does; closing the descriptor unlocks it.

    Returns:
        Whether the file is locked. It is not if another process holds the lock for all these seconds, or if that
        process is stopped, for instance by Ctrl-Z.
    """
    import fcntl

    deadline, pause = time.monotonic() + seconds, _PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or is_stopped(holder(descriptor)):
                return False
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, _LARGEST_PAUSE)
        else:
            return True


def holder(descriptor: int) -> int:
    """Return the process that locks a file (`/proc/locks`); 0 if it is not known."""
    status = os.fstat(descriptor)
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            fields = [line.split() for line in file]
    except OSError:
        return 0
    return next((int(line[4]) for line in fields if line[1:2] == ["FLOCK"] and line[5:6] == [name]), 0)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except OSError:
        return False


def message_file() -> int:
    """Return the descriptor of a new file in memory for the messages of a program."""
    import fcntl

    descriptor = os.memfd_create("mlgo-messages", os.MFD_CLOEXEC)
    # In append mode the reader can truncate the file.
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


def contents_of(descriptor: int) -> bytes:
    """Return the contents of an open file."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
