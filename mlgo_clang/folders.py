"""Folders of `mlgo-clang`: the cache between compiles, and the channels of one compile.

Both are named by the rules of `mlgo_gym`: `mlgo_gym.storage.cache` has the same cache folder, and
`mlgo_gym.session.process.scratch` removes the channels of a killed process.
"""

from __future__ import annotations

import os


def cache_folder() -> str:
    """Return the cache folder: `$MLGO_CACHE`, or `mlgo-gym` in the user's cache folder."""
    chosen = os.environ.get("MLGO_CACHE")
    if chosen:
        return os.path.expanduser(chosen)
    parent = os.environ.get("XDG_CACHE_HOME", "").strip()
    return os.path.join(parent or os.path.expanduser("~/.cache"), "mlgo-gym")


def make_scratch() -> str:
    """Make an empty folder for the channels of one compile, in memory if possible; the caller removes it."""
    parent = "/dev/shm"  # noqa: S108 - only this user can read the folder in it
    if not os.access(parent, os.W_OK | os.X_OK):
        parent = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - as above
    folder = f"{parent}/mlgo-gym-{os.getpid()}-{host_id()}-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)
    return folder


def host_id() -> str:
    """Return a short name of this boot and process namespace: process ids are unique only within both."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            # Short, because some folders become paths of sockets.
            return f"{file.read(8)}{os.stat('/proc/self/ns/pid').st_ino & 0xFFFF:04x}"
    except OSError:
        return "unknown"
