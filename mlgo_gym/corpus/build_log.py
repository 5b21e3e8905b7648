"""Why a build failed, or compiled nothing, in a few words: its exit status, the end of its log, and what to try."""

from __future__ import annotations

import re
from pathlib import Path

from mlgo_gym.llvm.toolchain import Toolchain

_END = 2000
_MISSING = re.compile(
    r"(?P<header>[\w./+-]+\.h(?:pp|h)?)'? file not found|fatal error: (?P<other>[\w./+-]+\.h(?:pp|h)?): No such file"
    r"|unable to find (?:dynamic system )?library '?(?P<library>[\w.+-]+)"
    r"|(?:Dependency|Package|library|Could NOT find|Could not find) \"?'?(?P<package>[A-Za-z][\w.+-]+)'?\"?"
    r"(?: found: NO|, required by| not found| was not found| \(missing)"
)


def explain_build(status: int, log: Path, toolchain: Toolchain) -> str:
    """Return why a build compiled nothing, or failed.

    Args:
        status: its exit status.
        log: what it printed; named in the text, since it is kept.
        toolchain: the compiler that it was given.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if status == 0:
        return (
            "its build ended well and compiled no C or C++: it is pure Python, or builds another way (Rust, Fortran, "
            f"prebuilt libraries); its log is {log}"
        )
    missing = list(dict.fromkeys(name for match in _MISSING.finditer(text) for name in match.groups() if name))
    words = f"its build ended with exit status {status}; its log is kept in {log} and ends: {text.strip()[-_END:]}"
    if missing:
        words = f"it wants {', '.join(missing[:5])}, which the compiler does not find; {words}"
        if toolchain.bundled:
            words = (
                "the bundled clang brings the headers of libc and libc++ and sees no libraries of the system: record "
                f"with an installed clang (--clang clang-22, clang=) where these are installed; {words}"
            )
    return words
