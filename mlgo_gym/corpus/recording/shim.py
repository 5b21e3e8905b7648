"""A compiler shim: it runs the real compiler or linker, and then records the call if a recording is active.

A build starts `python -I -S shim.py` hundreds of times. So this file imports only the standard library, and most of it
after the real compiler has ended. Each record is a folder that appears by a rename, so parallel shims need no lock.
"""

from __future__ import annotations

import os
import sys
from itertools import takewhile

# pathlib and typing would double the time that a shim takes to start.
# ruff: noqa: PTH100, PTH109, PTH118, PTH119, PTH120, PTH123
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

SETTINGS_VARIABLE = "MLGO_RECORD"
"""Environment variable with the path of a recording's settings; without it a shim only compiles."""

UNCHANGED_VARIABLE = "MLGO_UNCHANGED"
"""Environment variable with the path of a program that is not intercepted, so that a shim can become it."""

_SOURCES = (
    ".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".i", ".ii",
    ".m", ".mm", ".mi", ".mii", ".s", ".S", ".sx", ".asm", ".cppm", ".ixx", ".ccm", ".cxxm", ".pcm",
    ".cu", ".hip", ".cl", ".h", ".hh", ".hpp", ".hxx", ".H",
)  # fmt: skip
"""Suffixes of sources that are recorded or counted as skipped."""

_COMPILE_ONLY = frozenset(
    """
    -c -S -E -M -MM -fsyntax-only -### --compile --assemble --preprocess --precompile
    -emit-pch c-header c++-header -xc-header -xc++-header
    """.split()  # noqa: SIM905 - a word list
)
CACHES = ("ccache", "sccache")
"""Compiler caches, which are bypassed: an object from a cache is no compile to record."""

_CXX_STANDARDS = ("-std=c++", "-std=gnu++")
_HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".H", ".pch", ".gch")


def main(argv: Sequence[str]) -> int:
    """Compile or link, record the call if `$MLGO_RECORD` is set, and return the exit status of the real compiler.

    Args:
        argv: default language of the driver (`c` or `c++`); then four groups of words, each after its length: command
            of the linker driver, its options after the build's arguments, command of the compiler, and its options
            after them; then the build's arguments. For compilers and caches that were called by path: `by-path`, four
            empty groups, the program, arguments. For Rust: `rust`, rustc, arguments.
    """
    # Compilers that the real compiler starts are not recorded again.
    settings_path = os.environ.pop(SETTINGS_VARIABLE, None)
    if argv[0] == "by-path" and os.path.basename(argv[5]) in CACHES:
        return _run_cache(list(argv[5:]), settings_path)
    if argv[0] == "rust":
        return _run_rustc(list(argv[1:]), settings_path)
    groups, arguments = [], list(argv[1:])
    for _ in range(4):
        end = int(arguments[0]) + 1
        groups.append(arguments[1:end])
        arguments = arguments[end:]
    mode, (linker, linker_after, compiler, after) = argv[0], groups
    compiler_path = None
    if mode == "by-path":
        compiler_path, *arguments = arguments
        linker = compiler = [compiler_path]
        mode = "c++" if "++" in os.path.basename(compiler_path) else "c"
    if mode == "c" and any(word.endswith(".c") for word in arguments) and "-x" not in arguments:
        # GCC ignores a C++ standard for C with a warning, and builds of Python packages pass one; clang refuses it.
        arguments = [word for word in arguments if not word.startswith(_CXX_STANDARDS)]
    expanded = arguments
    if any(word.startswith("@") for word in arguments):
        expanded = _load("mlgo_clang.command_lines").expand_response_files(arguments)
    inputs = [word for word in expanded if not word.startswith("-")]
    only_headers = all(word.endswith(_HEADER_SUFFIXES) for word in inputs)
    links = not _COMPILE_ONLY.intersection(expanded) and not only_headers
    end = arguments.index("--") if "--" in arguments else len(arguments)
    program, added = (linker, linker_after) if links else (compiler, after)
    command = [*program, *arguments[:end], *added, *arguments[end:]]
    has_sources = any(word.endswith(_SOURCES) or word.startswith(("-x", "--language")) for word in expanded)
    is_front_end = arguments[:1] in (["-cc1"], ["-cc1as"])
    if is_front_end:
        # Clang takes this word only as its first argument.
        command = [*takewhile(lambda word: not word.startswith("-"), compiler), *arguments]
    if not settings_path or is_front_end or not (has_sources or (links and any(map(os.path.isfile, inputs)))):
        if settings_path and compiler_path:
            # A script that is called like a compiler, such as `build-cc`, may start compilers.
            os.environ |= {SETTINGS_VARIABLE: settings_path, UNCHANGED_VARIABLE: compiler_path}
        os.execv(command[0], command)  # noqa: S606 - a shim becomes the compiler

    def record(settings: dict[str, Any], records: Any) -> None:
        settings["compiler_path"] = compiler_path
        folder = os.getcwd()
        records.note_objects(settings, expanded, folder)
        records.record_compile(settings, expanded, folder, mode)
        if links:
            _load("recording.link_records").record_link(settings, expanded, folder, mode)

    return _run(command, settings_path, record)


def _run_cache(command: list[str], settings_path: str | None) -> int:
    """Run the compiler that a compiler cache starts, or the cache itself for its own options."""
    if settings_path and command[1:] and not command[1].startswith("-"):
        os.environ[SETTINGS_VARIABLE] = settings_path  # the compiler is recorded when it starts
        del command[0]
        while "=" in command[0]:  # settings of ccache
            del command[0]
    os.execvp(command[0], command)  # noqa: S606 - a shim becomes the compiler


def _run_rustc(command: list[str], settings_path: str | None) -> int:
    """Run rustc, which cargo names to its `RUSTC_WRAPPER`, and record the crate if there are settings."""
    program, *arguments = command
    if settings_path:
        import json

        with open(settings_path, encoding="utf-8") as file:
            shims = json.load(file)["shims"]
        # rustc links with the machine's own linker driver, not with the shim of that name.
        folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != shims]
        if any(os.access(os.path.join(folder, "cc"), os.X_OK) for folder in folders):
            os.environ["PATH"] = os.pathsep.join(folders)
    if not settings_path or not any(word.endswith(".rs") or word.startswith("@") for word in arguments):
        os.execvp(program, command)  # noqa: S606 - a shim becomes the compiler

    def record(settings: dict[str, Any], records: Any) -> None:
        records.record_crate(settings, program, arguments)

    return _run(command, settings_path, record)


def _run(command: list[str], settings_path: str, record: Callable[[dict[str, Any], Any], None]) -> int:
    """Run the real compiler, then `record` with the settings and `shim_records`; its failure does not end a build."""
    process = os.posix_spawnp(command[0], command, os.environ)

    import json

    records = _load("recording.shim_records")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status == 0:
        try:
            with open(settings_path, encoding="utf-8") as file:
                settings = json.load(file)
            record(settings, records)
        except Exception as error:  # noqa: BLE001 - the build continues if recording fails
            message = f"{type(error).__name__}: {error}"
            records.note_failure(os.path.dirname(settings_path), " ".join(command)[:500], message)
    return status if status >= 0 else 128 - status


def _load(name: str) -> Any:
    """Import a module of `recording` or of `mlgo_clang`; a shim runs without Gymnasium, which `mlgo_gym` imports."""
    from importlib import import_module

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if folder not in sys.path:  # last, so that nothing hides the standard library
        sys.path += [os.path.dirname(os.path.dirname(folder)), folder]
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
