"""Whether this machine can fork a waiting clang, tested with a tiny program."""

import errno
import sys
import time
from functools import lru_cache
from pathlib import Path

from mlgo_gym.compiler.session import Session
from mlgo_gym.errors import CompilerError, SnapshotError
from mlgo_gym.llvm.advisors import INLINING

_PROGRAM = """
import os, sys
base = next(word.partition("=")[2] for word in sys.argv if "channel-base=" in word)
advice, log = os.open(base + ".in", os.O_RDONLY), os.open(base + ".out", os.O_WRONLY)
tensor = '{"name":"a","type":"int64_t","port":0,"shape":[1]}'
header = '{"features":[%s],"advice":%s}' % (tensor, tensor)
os.write(log, header.encode() + b'\\n{"context":""}\\n{"observation":0}\\n' + bytes(8) + b"\\n")
os.write(1, os.read(advice, 8))
"""
"""Requests one decision as clang does, and writes the answer to its standard output."""

_SECONDS = 10.0

_TEMPORARY_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


class _NotTestedError(Exception):
    """The test could not run, for a temporary reason."""


def snapshot_support() -> tuple[bool, str]:
    """Return whether `Session.fork()` works on this machine, and the result of the test in words.

    The test runs once per process; it is repeated if it could not run, for instance on a full disk.
    """
    try:
        return _test()
    except _NotTestedError as reason:
        return False, str(reason)


@lru_cache(maxsize=1)
def _test() -> tuple[bool, str]:
    if sys.platform != "linux":
        return False, f"expected Linux, for its ptrace, got {sys.platform}"
    try:
        with Session([sys.executable, "-I", "-S", "-c", _PROGRAM], [INLINING]) as session:
            session.wait(_SECONDS)
            started = time.perf_counter()
            with session.fork(_SECONDS) as copied:
                milliseconds = (time.perf_counter() - started) * 1e3
                answers = [_answer(waiting, bytes([number]) * 8) for number, waiting in enumerate((session, copied))]
    except SnapshotError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _TEMPORARY_ERRORS:
            raise _NotTestedError(str(error)) from error
        return False, f"{error}{_hint(error.__cause__)}"
    except CompilerError as error:
        message = f"the tiny program to copy failed: {error}"
        if error.kind == "start":
            raise _NotTestedError(message) from error
        return False, message
    if answers != [bytes(8), b"\1" * 8]:
        return False, f"expected separate answers for a program and its copy, got {answers}"
    return True, f"a tiny program was forked with ptrace in {milliseconds:.1f} ms"


def _answer(session: Session, answer: bytes) -> bytes:
    session.advise(answer)
    return session.finish(_SECONDS).object_bytes


def _hint(cause: BaseException | None) -> str:
    if not isinstance(cause, OSError) or cause.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return ""
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        scope = 0
    if scope > 1:
        return f"; /proc/sys/kernel/yama/ptrace_scope is {scope}, set it to 0 or 1"
    if "\nSeccomp:\t2" in Path("/proc/self/status").read_text():
        return "; a seccomp filter is active, start the container with --cap-add=SYS_PTRACE"
    return ""
