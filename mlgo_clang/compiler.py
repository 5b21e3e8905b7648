"""The words that start the underlying clang."""

from __future__ import annotations

import os
import sys


class NoCompilerError(Exception):
    """There is no such compiler."""


def compiler_command(clang: str, mode: str) -> list[str]:
    """Return the words that start a clang's driver.

    The bundled one is given the folder of its own headers, which it does not know, and this machine's libc for a
    target; everything else it finds as any clang does: headers, libraries and linker are the machine's.

    Args:
        clang: a path, a name on `PATH`, or `bundled`.
        mode: `gcc` for C, `g++` for C++, as `--driver-mode=` takes it.

    Raises:
        NoCompilerError: there is no such program.
    """
    if clang != "bundled":
        found = _which(clang)
        if found is None:
            raise NoCompilerError(f"there is no program {clang!r}; name a clang 17 or newer, or leave it out")
        return [found] if mode == "gcc" else [found, f"--driver-mode={mode}"]
    library = bundled_library()
    target = getattr(sys.implementation, "_multiarch", "")
    words = [os.path.join(os.path.dirname(library), "zig"), "clang"]
    if mode != "gcc":
        words.append(f"--driver-mode={mode}")
    if target:
        words.append(f"--target={target}")
    return [*words, f"-resource-dir={library}"]


def bundled_library() -> str:
    """Return the folder `lib` of the `ziglang` wheel, in which its clang's headers are.

    Raises:
        NoCompilerError: the wheel is not installed.
    """
    for folder in sys.path:
        library = os.path.join(folder, "ziglang", "lib")
        if os.path.isdir(library):
            return library
    raise NoCompilerError("the bundled compiler is missing: pip install ziglang==0.17.0, or name another clang")


def _which(program: str) -> str | None:
    if os.sep in program:
        path = os.path.abspath(os.path.expanduser(program))
        return path if os.access(path, os.X_OK) else None
    for folder in os.get_exec_path():
        path = os.path.join(folder, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
