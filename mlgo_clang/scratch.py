"""The folder of a compile's channels, in memory where that is possible, named as `mlgo_gym.session.scratch` does.

That one sweeps up what a host left behind that was killed before its clang had opened the channels.
"""

from __future__ import annotations

import os


def make_scratch() -> str:
    """Make an empty folder that is this user's alone; its owner removes it.

    Raises:
        OSError: it cannot be made.
    """
    parent = "/dev/shm"  # noqa: S108 - the folder in it is this user's alone
    if not os.access(parent, os.W_OK | os.X_OK):
        parent = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - as above
    folder = f"{parent}/mlgo-gym-{os.getpid()}-{place()}-{os.urandom(8).hex()}"
    os.mkdir(folder, 0o700)
    return folder


def place() -> str:
    """Return what tells the process numbers of this machine, and of this container, from those of others.

    Containers may share a folder, and machines a home.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            # Namespaces are numbered one after the other; names have to be short, for some become paths of sockets.
            return f"{file.read(8)}{os.stat('/proc/self/ns/pid').st_ino & 0xFFFF:04x}"
    except OSError:
        return "unknown"
