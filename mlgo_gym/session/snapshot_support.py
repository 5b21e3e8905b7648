"""Whether a waiting clang can be forked on this machine: found out by forking a tiny program."""

from __future__ import annotations

import errno
import platform
import sys
import time
from functools import lru_cache
from pathlib import Path

from mlgo_gym.errors import CompilerError, SnapshotError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.forkable_session import ForkableSession

_PROGRAM = """
import os, sys
base = next(word.partition("=")[2] for word in sys.argv if "channel-base=" in word)
advice, log = os.open(base + ".in", os.O_RDONLY), os.open(base + ".out", os.O_WRONLY)
tensor = '{"name":"a","type":"int64_t","port":0,"shape":[1]}'
header = '{"features":[%s],"advice":%s}' % (tensor, tensor)
os.write(log, header.encode() + b'\\n{"context":""}\\n{"observation":0}\\n' + bytes(8) + b"\\n")
os.write(1, os.read(advice, 8))
"""
"""Asks one question as clang does, and writes the answer to its standard output."""

_SECONDS = 10.0

_LACKS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""What is wrong with a machine for a while."""


class _NotNowError(Exception):
    """The trial could not be made, for a reason that may pass; the text says which."""


def snapshot_support() -> tuple[bool, str]:
    """Return whether `ForkableSession.fork()` works here, and how that was found or why not.

    It is tried once per process, and again if the trial was not possible, as where there is no room for its channels.
    """
    try:
        return _tried()
    except _NotNowError as reason:
        return False, str(reason)


@lru_cache(maxsize=1)
def _tried() -> tuple[bool, str]:
    if sys.platform != "linux":
        return False, f"copies of a running process are made with Linux's ptrace; this is {sys.platform}"
    if not sys.executable:
        return False, "the trial starts a Python, and this Python does not know its own program (sys.executable)"
    try:
        with ForkableSession([sys.executable, "-I", "-S", "-c", _PROGRAM], [INLINING]) as session:
            session.wait(_SECONDS)
            begin = time.perf_counter()
            with session.fork(_SECONDS) as twin:
                milliseconds = (time.perf_counter() - begin) * 1e3
                answers = [_answer(each, bytes([number]) * 8) for number, each in enumerate((session, twin))]
    except SnapshotError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _LACKS:
            raise _NotNowError(str(error)) from error
        return False, f"{error}{_hint(error.__cause__)}"
    except CompilerError as error:
        said = f"a tiny program was to be copied, and it failed: {error}"
        if error.kind == "start":
            raise _NotNowError(said) from error
        return False, said
    if answers != [bytes(8), b"\1" * 8]:
        return False, f"a program and its copy were to get answers of their own, found {answers}"
    untested = "" if platform.machine() == "x86_64" else ", where this package was not tested"
    return True, f"a tiny program was forked with ptrace in {milliseconds:.1f} ms on {platform.machine()}{untested}"


def _answer(session: ForkableSession, answer: bytes) -> bytes:
    session.advise(answer)
    return session.finish(_SECONDS).object_bytes


def _hint(cause: BaseException | None) -> str:
    """Return what may forbid ptrace here."""
    if not isinstance(cause, OSError) or cause.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return ""
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        scope = 0
    if scope > 1:
        return f"; /proc/sys/kernel/yama/ptrace_scope is {scope}: 0 and 1 allow it"
    if "\nSeccomp:\t2" in Path("/proc/self/status").read_text():
        return "; a seccomp filter is in force: start the container with --cap-add=SYS_PTRACE"
    return ""
