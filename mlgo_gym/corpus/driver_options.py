"""What a clang's driver is given so that it compiles any C and C++ without help of the machine."""

from __future__ import annotations

import platform
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from mlgo_clang.compiler import compiler_command
from mlgo_gym.corpus.driver_line import cc1_line
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.cache import cache_directory

PORTABLE_TARGET = "x86_64-linux-gnu.2.28"
"""What datasets are compiled for, so that they are the same on every machine: the first x86-64, Debian 10's glibc."""

NATIVE = "native"
"""A target: what the bundled compiler is to `mlgo-clang`, with this machine's headers, libraries and linker."""

SYSTEM_HEADERS = Path("/usr/include")
"""Where Linux has its headers."""


def bundled_target() -> str:
    """Return the target that the bundled compiler builds and records for: glibc on this kind of processor.

    It is the same on every machine of one architecture.
    """
    return PORTABLE_TARGET.replace("x86_64", "aarch64") if platform.machine() == "aarch64" else PORTABLE_TARGET


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """What a clang's driver is given with every command line.

    Attributes:
        before: options that the command line may override.
        after: options that override the command line.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def driver_options(toolchain: Toolchain, target: str | None = None) -> DriverOptions:
    """Return the options that make a clang compile without any help of the machine: none for an installed one.

    `zig clang` is the driver that compiles and records, because it takes every flag as upstream's does; `zig cc` and
    `zig c++` do not, but only they know the bundled headers of libc and libc++, and are asked for them.

    Args:
        toolchain: the clang.
        target: what the bundled compiler compiles for; `bundled_target()` if None, or `NATIVE`.

    Raises:
        ToolchainError: the bundled compiler does not name its headers.
    """
    if not toolchain.bundled:
        return DriverOptions()
    if target == NATIVE:
        return DriverOptions(before=tuple(compiler_command("bundled", "gcc")[len(toolchain.command) :]))
    after = ["-nostdinc", *([] if target else _multiarch_headers())]
    target = target or bundled_target()
    for_c, for_cxx = (_zig_options(toolchain, target, mode) for mode in ("cc", "c++"))
    headers: list[str] = []
    for language, options in (("-c-isystem", for_c), ("-cxx-isystem", for_cxx)):
        for option, value in options:
            headers += [language, str(Path(value).absolute())] if option == "-isystem" else []
    for option, value in for_cxx:
        if option == "-D" and value.startswith(("_LIBCPP", "_LIBCXX", "__GLIBC")):
            headers += [option, value]
    words = [word for header in headers for word in ("-Xclang", header)]
    return DriverOptions(("--no-default-config", f"--target={target.partition('.')[0]}"), (*after, *words))


def linker_command(toolchain: Toolchain, mode: str, *, native: bool = False) -> list[str]:
    """Return the words that start the driver that links: for the bundled clang zig's own, which has a C library.

    Args:
        toolchain: the clang.
        mode: `c` or `c++`.
        native: whether the bundled clang links with this machine's libraries and linker.

    Raises:
        ToolchainError: the bundled compiler is missing.
    """
    if not toolchain.bundled:
        return [*toolchain.command, f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}"]
    if native:
        return compiler_command("bundled", "g++" if mode == "c++" else "gcc")
    # Without -O it would instrument for undefined behaviour.
    zig = bundled_command("c++" if mode == "c++" else "cc")
    return [*zig, "-target", bundled_target(), "-fno-sanitize=undefined"]


def _multiarch_headers() -> list[str]:
    """Return options with which `<x86_64-linux-gnu/python3.12/pyconfig.h>` is found, which Debian's Python.h includes.

    A folder with nothing but a link of that name keeps every other header of the machine out of sight.
    """
    machine = bundled_target().partition(".")[0]
    folder = cache_directory() / "multiarch"
    if not (SYSTEM_HEADERS / machine).is_dir():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / machine).symlink_to(SYSTEM_HEADERS / machine)
    return ["-idirafter", str(folder)]


def _zig_options(toolchain: Toolchain, target: str, mode: str) -> list[tuple[str, str]]:
    """Return each word of the `-cc1` line behind `zig cc` or `zig c++`, with the word after it."""
    zig, command = bundled_command(mode)
    with tempfile.NamedTemporaryFile(suffix=".c" if mode == "cc" else ".cpp") as source:
        line = cc1_line(replace(toolchain, command=(zig,)), [command, "-target", target, "-c", source.name])
    return list(pairwise(line))
