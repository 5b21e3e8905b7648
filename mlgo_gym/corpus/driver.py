"""Sources of our own to bitcode: a fixed target, the libc headers of the compiler wheel, and any clang.

Nothing installed on the machine is read, so equal compilers make equal bitcode everywhere, also where there is no C
toolchain.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.corpus.code_generation import code_generation_flags
from mlgo_gym.corpus.driver_line import cc1_line
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder
from mlgo_gym.session.bounded_run import run_bounded

PORTABLE_FLAGS = (
    "--no-default-config",
    "--target=x86_64-unknown-linux-musl",
    "-march=x86-64",
    "-mtune=generic",
    "-fPIC",
    "-fomit-frame-pointer",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-U_FORTIFY_SOURCE",
    "-fno-ident",
    "-nostdlibinc",
    "-w",
)
"""Driver flags that leave nothing to the machine, and nothing to the habits of a distribution."""

_LIBC_HEADERS = ("x86_64-linux-musl", "generic-musl", "x86_64-linux-any", "any-linux-any")


def libc_include_flags(toolchain: Toolchain) -> list[str]:
    """Return the driver flags that name the headers of libc, and of the compiler where its driver does not know them.

    Raises:
        ToolchainError: the compiler wheel, which has them, is not installed.
    """
    library = bundled_folder() / "lib"
    headers = [library / "libc" / "include" / part for part in _LIBC_HEADERS]
    if toolchain.bundled:
        headers.append(library / "include")
    return [word for folder in headers for word in ("-isystem", str(folder))]


def compile_to_bitcode(source: str, bitcode: Path, flags: Sequence[str], toolchain: Toolchain, *, folder: Path) -> None:
    """Compile a source to bitcode, before any optimisation.

    Args:
        source: its path relative to `folder`, which is what the bitcode says of it.
        bitcode: where the bitcode goes.
        flags: driver flags.
        toolchain: the clang.
        folder: what `source` is relative to.

    Raises:
        CorpusError: it does not compile; the text has the compiler's message.
    """
    emit = ["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-working-directory", str(folder)]
    answer = run_bounded([*toolchain.command, *flags, *emit, source, "-o", str(bitcode)], writable=None, timeout=300)
    if answer.returncode != 0 or not bitcode.exists():
        raise CorpusError(
            f"{source} was to be compiled by clang {toolchain.version_text}; it said:\n{answer.stderr.strip()[-4000:]}"
        )


def recorded_flags(language: str, flags: Sequence[str], toolchain: Toolchain) -> tuple[str, ...]:
    """Return the `-cc1` flags that a compile of the bitcode needs, as the driver makes them of its own.

    Args:
        language: `c` or `c++`, as `-x` takes it.
        flags: driver flags.
        toolchain: the clang.

    Raises:
        ToolchainError: the driver refuses the flags.
    """
    return code_generation_flags(cc1_line(toolchain, [*flags, "-c", "-x", language, "-", "-o", "output"]))
