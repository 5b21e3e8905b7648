"""Programs without the right to write, by Linux's Landlock: a second defence against untrusted compile flags.

A thread gives up its own rights (landlock(7)), and programs that it starts inherit that; no privilege is needed.
Reading, files that are open already, and memory files are not restricted.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from mlgo_gym.compiler.interrupts import uninterrupted

T = TypeVar("T")

# System call numbers, the same on every architecture, and include/uapi/linux/landlock.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BELOW_PATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
_TRUNCATE = 1 << 14
_REFER = 1 << 13
_CHANGING = sum(1 << bit for bit in range(4, 13))  # remove and make files of every kind
_NETWORK = 0b11  # bind and connect TCP sockets, from version 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@lru_cache(maxsize=1)
def confinement_support() -> tuple[bool, str]:
    """Return whether this machine can confine compiles, and by which mechanism or why not."""
    version = _landlock_version()
    if version > 0:
        return True, f"Landlock, version {version}"
    return False, "no Landlock in the kernel; use Linux 5.13 or newer with the security module landlock"


@uninterrupted()
def run_confined(function: Callable[[], T], writable: Sequence[str | os.PathLike[str]]) -> T:
    """Call a function that starts a program, in a new thread, and return its result or raise its exception.

    Where Landlock exists, thread and program can write only the `writable` folders and files. The caller defers
    interrupts too (`uninterrupted()`) if the program must not be lost.
    """
    if not confinement_support()[0]:
        return function()
    ruleset = _make_ruleset(writable)
    outcome: list[tuple[T | None, BaseException | None]] = []

    def work() -> None:
        try:
            if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
            _call(_RESTRICT_SELF, ruleset, 0)
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            outcome.append((None, error))

    # A finaliser in that thread could not write either.
    collects = gc.isenabled()
    gc.disable()
    try:
        thread = threading.Thread(target=work, name="mlgo-gym-confined")
        thread.start()
        thread.join()
    finally:
        if collects:
            gc.enable()
        os.close(ruleset)
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value] # it is what the function returned


def _make_ruleset(writable: Sequence[str | os.PathLike[str]]) -> int:
    version = _landlock_version()
    files = _WRITE_FILE | _CHANGING | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = _Ruleset(files, _NETWORK if version >= 4 else 0)
    size = ctypes.sizeof(_Ruleset) if version >= 4 else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for path in (*writable, os.devnull):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rights = files if os.path.isdir(path) else files & (_WRITE_FILE | _TRUNCATE)  # noqa: PTH112 - one word
                rule = _PathRule(rights, descriptor)
                _call(_ADD_RULE, ruleset, _BELOW_PATH, ctypes.byref(rule), 0)
            finally:
                os.close(descriptor)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


@lru_cache(maxsize=1)
def _landlock_version() -> int:
    if os.uname().sysname != "Linux":
        return 0
    return int(_libc().syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number} of Landlock: {os.strerror(error)}")
    return result


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
