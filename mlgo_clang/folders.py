"""Folders of `mlgo-clang`: the cache between compiles, and the channels of one compile.

Both are named by the rules of `mlgo_gym`: `mlgo_gym.storage.cache` has the same cache folder, and
`mlgo_gym.compiler.scratch` removes the channels of a killed process.
"""

from __future__ import annotations

import os

_PREFIX = "mlgo-gym-"
_RANDOM = 16
"""Random letters at the end of a folder's name; folders of the package have fewer."""

UNKNOWN_HOST = "unknown"
"""Name of a host whose process ids cannot be told from those of others."""


def cache_folder() -> str:
    """Return the cache folder: `$MLGO_CACHE`, or `mlgo-gym` in the user's cache folder."""
    chosen = os.environ.get("MLGO_CACHE")
    if chosen:
        return os.path.expanduser(chosen)
    parent = os.environ.get("XDG_CACHE_HOME", "").strip()
    return os.path.join(parent or os.path.expanduser("~/.cache"), "mlgo-gym")


def write_file(path: str, data: bytes) -> bool:
    """Write a file of the cache, which may be a program, unless it has these bytes; return whether it is there."""
    try:
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read() == data:
                    return True
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = f"{path}-{os.getpid()}"
        with open(new, "wb") as file:
            file.write(data)
        os.chmod(new, 0o700)
        os.replace(new, path)
    except OSError:
        return False
    return True


def make_scratch() -> str:
    """Make an empty folder for the channels of one compile, in memory if possible; the caller removes it."""
    parent = "/dev/shm"  # noqa: S108 - only this user can read the folder in it
    if not os.access(parent, os.W_OK | os.X_OK):
        parent = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - as above
    host = host_id()
    _sweep(parent, host)
    folder = f"{parent}/{_PREFIX}{os.getpid()}-{host}-{os.urandom(_RANDOM // 2).hex()}"
    os.mkdir(folder, 0o700)
    return folder


def _sweep(parent: str, host: str) -> None:
    """Remove the folders of killed processes of `mlgo-clang`; another process may do the same.

    Those of the package stay: it finds compilers by them whose host was killed.
    """
    if host == UNKNOWN_HOST:
        return
    for name in os.listdir(parent):
        pid, _, rest = name.removeprefix(_PREFIX).partition("-")
        ours = name.startswith(_PREFIX) and pid.isdigit() and rest[:-_RANDOM] == f"{host}-"
        if ours and not os.path.exists(f"/proc/{pid}"):
            remove_folder(os.path.join(parent, name))


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


def host_id() -> str:
    """Return a short name of this boot and process namespace: process ids are unique only within both."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            # Short, because some folders become paths of sockets.
            return f"{file.read(8)}{os.stat('/proc/self/ns/pid').st_ino & 0xFFFF:04x}"
    except OSError:
        return UNKNOWN_HOST
