"""Compiles and links for another machine, with headers, C libraries and linkers of the bundled compiler's wheel.

Only `zig cc` knows these headers and builds the C library for a link. That is for WebAssembly with WASI, and for Linux
with musl. LLD of the wheel links for a machine without an operating system.
"""

from __future__ import annotations

import os

from mlgo_clang.command_lines import read_commands, shown_text, target_of
from mlgo_clang.files import cache_folder, read_checked, write_cached, write_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_LIBRARY = ("--sysroot", "-isysroot", "-nostdinc", "-nostdlibinc", "--gcc-toolchain", "--gcc-install-dir")
"""Options by which a command line names its own C library."""

_CXX = ("-cxx-isystem",)
_CXX_FOLDERS = (f"{os.sep}libcxx", f"{os.sep}libunwind")
_LIBRARY_DEFINITIONS = ("_LIBCPP", "_LIBCXX", "__GLIBC")

_MACHINE = ("-march=", "-mabi=", "-mcpu=", "-mtune=", "--target=")
"""Options that `zig cc` has in another form, or that its target implies."""


def library_target(arguments: Sequence[str]) -> str:
    """Return zig's name of a command line's target; empty if the wheel's C library is not for it."""
    machine, _, system = target_of(arguments).partition("-")
    if not system or any(word.startswith(_OWN_LIBRARY) for word in arguments):
        return ""
    if machine == "wasm32" and system.removeprefix("unknown-") in ("wasi", "wasip1"):
        return "wasm32-wasi"
    if machine in ("x86_64", "aarch64", "riscv64") and system.removeprefix("unknown-") == "linux-musl":
        return f"{machine}-linux-musl"
    return ""


def header_words(zig: str, target: str) -> list[str]:
    """Return the driver's options for the C library and libc++ of a target, a name of zig; the cache keeps them."""
    compiler = f"{zig} {os.stat(zig).st_mtime_ns}"
    path = os.path.join(cache_folder(), "mlgo-clang", f"headers-{target}")
    known, *words = (read_checked(path) or b"").decode().split("\n")
    if known != compiler:
        words = library_headers(zig, [target])
        if words:
            write_cached(path, "\n".join((compiler, *words)).encode())
    return ["-nostdinc", *words]


def library_headers(zig: str, target: Sequence[str]) -> list[str]:
    """Return the driver's options for the headers that `zig c++ -target TARGET` uses; none if zig does not know it."""
    import itertools
    import tempfile

    # zig reads no source here, but its name has to be one of C++. Without a cache folder, as without a home folder, zig
    # prints nothing or does not end; it stores nothing for this question.
    with tempfile.TemporaryDirectory() as cache:
        words = [zig, "c++", "-target", *target, "-c", "-x", "c++", os.devnull]
        commands = read_commands(shown_text(words, environment={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache}))
    line = next((command for command in commands if "-cc1" in command), [])
    words = []
    for option, value in itertools.pairwise(line):
        if option == "-isystem":
            languages = _CXX if any(map(value.__contains__, _CXX_FOLDERS)) else ("-c-isystem", *_CXX)
            words += [word for language in languages for word in (language, os.path.abspath(value))]
        elif option == "-D" and value.startswith(_LIBRARY_DEFINITIONS):
            words += [option, value]
    return [word for option in words for word in ("-Xclang", option)]


def link_command(zig: str, mode: str, target: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that links a command line for a target, a name of zig, and builds the C library for it."""
    words = []
    before = ""
    for word in arguments:
        if before != "-target" and word != "-target" and not word.startswith(_MACHINE):
            words.append(word)
        if word == "-Oz" and before != "-Xclang":
            words += ["-Xclang", "-Oz"]  # zig makes -Os of -Oz
        before = word
    # Without -O zig adds checks of undefined behaviour.
    return [zig, "c++" if mode == "g++" else "cc", "-target", target, "-fno-sanitize=undefined", *words]


def linker_option(zig: str, arguments: Sequence[str]) -> list[str]:
    """Return the option that names LLD of the wheel for a link without an operating system; empty for another link."""
    target = target_of(arguments)
    machine = target.partition("-")[0]
    named = any(word.startswith(("-fuse-ld", "--ld-path")) for word in arguments)
    if named or not (machine.startswith("wasm") or target.endswith(("-elf", "-none")) or "-none-" in target):
        return []
    flavour = "wasm-ld" if machine.startswith("wasm") else "ld.lld"
    path = os.path.join(cache_folder(), "mlgo-clang", flavour)
    script = f"#!/bin/sh\nexec '{zig}' {flavour} \"$@\"\n"
    # Without this file clang looks for a linker itself.
    return [f"--ld-path={path}"] if write_program(path, script.encode()) else []
