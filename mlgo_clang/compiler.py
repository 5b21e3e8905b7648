"""The underlying compiler: the words that start it, its messages, and this process as that compiler."""

from __future__ import annotations

import os
import sys

from mlgo_clang.errors import UsageError
from mlgo_clang.files import working_folder
from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

FAILED = 1
"""Exit status of a compile that failed."""

MULTIARCH: str = getattr(sys.implementation, "_multiarch", "")
"""Triple of this machine with its libc, as in the names of Debian's folders; empty if it is not known."""


class Dialect:
    """The command line of a compiler with LLVM.

    Attributes:
        name: the compiler's name in messages.
        llvm_option: the word before an option of LLVM, and the beginning of the next word.
        without_reports: options by which the compiler reports no crash.
    """

    def __init__(self, name: str, llvm_option: tuple[str, str], without_reports: tuple[str, ...]) -> None:
        self.name, self.llvm_option, self.without_reports = name, llvm_option, without_reports


CLANG = Dialect("clang", ("-mllvm", ""), ("-fno-crash-diagnostics",))
RUSTC = Dialect("rustc", ("-C", "llvm-args="), ())


def compiler_command(clang: str, mode: str) -> list[str]:
    """Return the words that start a clang's driver: of a path, of a name on `PATH`, or of `bundled`.

    The bundled clang needs the folder of its own headers and a target with this machine's libc. It finds the machine's
    headers, libraries and linker as any clang does. The mode is `gcc` or `g++`. Raises `UsageError` for no program.
    """
    words = [] if mode == "gcc" else [f"--driver-mode={mode}"]
    if clang != "bundled":
        program = which(clang)
        if program is None:
            raise UsageError(f"expected a clang 17 or newer, got {clang!r}, which is no program; name another")
        return [program, *words]
    library = next(filter(os.path.isdir, (os.path.join(folder, "ziglang", "lib") for folder in sys.path)), None)
    if library is None:
        raise UsageError("the bundled compiler is missing: pip install ziglang, or name another clang")
    if MULTIARCH:
        words.append(f"--target={MULTIARCH}")
    return [os.path.join(os.path.dirname(library), "zig"), "clang", *words, f"-resource-dir={library}"]


def which(program: str) -> str | None:
    """Return the path of a program that is a path or a name on `PATH`; None if there is none."""
    if os.sep in program:
        path = os.path.normpath(os.path.join(working_folder(), os.path.expanduser(program)))
        return path if os.access(path, os.X_OK) else None
    # `os.get_exec_path()` imports `warnings`.
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def open_standard_streams() -> None:
    """Open each closed standard stream as the null device, as clang does, so that no other file gets its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def become(command: Sequence[str]) -> NoReturn:
    """Replace this process by the compiler, so that the caller deals with the compiler itself."""
    # Python ignores these signals, and the compiler would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], list(command))  # noqa: S606 - a driver becomes the compiler
    except OSError as error:
        say(f"error: {command[0]} cannot be started: {error}")
        sys.exit(FAILED)


def die_by(number: int) -> int:
    """End this process by a signal, so that its parent sees the signal."""
    signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    return 128 + number


def say(message: str, dialect: Dialect = CLANG) -> None:
    """Write a message of `mlgo-clang` or `mlgo-rustc` to standard error."""
    write_errors(f"mlgo-{dialect.name}: {message}\n".encode(errors="surrogateescape"))


def write_errors(data: bytes | bytearray) -> None:
    """Write to standard error, which may be a pipe that does not block."""
    while data:
        try:
            data = data[os.write(2, data) :]
        except BlockingIOError:
            import select

            select.select([], [2], [])
