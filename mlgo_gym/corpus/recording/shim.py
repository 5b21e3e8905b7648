"""A compiler shim: it runs the real compiler or linker, and then records the call if a recording is active.

A build starts `python -I -S shim.py` hundreds of times. So this file imports only the standard library, and most of it
after the real compiler has ended. Each record is a folder that appears by a rename, so parallel shims need no lock.
"""

from __future__ import annotations

import os
import sys

# pathlib and typing would double the time that a shim takes to start.
# ruff: noqa: PTH100, PTH109, PTH113, PTH118, PTH119, PTH120, PTH123
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SETTINGS_VARIABLE = "MLGO_RECORD"
"""Environment variable with the path of a recording's settings; without it a shim only compiles."""

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
_CXX_STANDARDS = ("-std=c++", "-std=gnu++")
_HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".H", ".pch", ".gch")


def main(argv: Sequence[str]) -> int:
    """Compile or link, and record the call if `$MLGO_RECORD` is set.

    Args:
        argv: default language of the driver (`c` or `c++`); then four groups of words, each after its length: command
            of the linker driver, its options after the build's arguments, command of the compiler, and its options
            after them; then the build's arguments. For compilers that were called by path: `by-path`, four empty
            groups, the compiler, arguments. For Rust: `rust`, rustc, arguments.

    Returns:
        Exit status of the real compiler, also if recording fails.
    """
    # Compilers that the real compiler starts are not recorded again.
    settings_path = os.environ.pop(SETTINGS_VARIABLE, None)
    if argv[0] == "rust":
        return int(_load("rustc_shim").run_rustc(argv[1:], settings_path, _load))
    mode, linker, linker_after, compiler, after, arguments = _groups(argv)
    compiler_path = None
    if mode == "by-path":
        compiler_path, *arguments = arguments
        linker = compiler = [compiler_path]
        mode = "c++" if "++" in os.path.basename(compiler_path) else "c"
    if mode == "c" and any(word.endswith(".c") for word in arguments) and "-x" not in arguments:
        # GCC ignores a C++ standard for C with a warning, and builds of Python packages pass one; clang refuses it.
        arguments = [word for word in arguments if not word.startswith(_CXX_STANDARDS)]
    expanded = _expand(arguments, os.getcwd())
    inputs = [word for word in expanded if not word.startswith("-")]
    only_headers = all(word.endswith(_HEADER_SUFFIXES) for word in inputs)
    links = not _COMPILE_ONLY.intersection(expanded) and not only_headers
    command = [*linker, *arguments, *linker_after] if links else [*compiler, *arguments, *after]
    if not settings_path or not ((links and inputs) or any(map(_may_name_source, expanded))):
        os.execv(command[0], command)  # noqa: S606 - a shim becomes the compiler
    process = os.posix_spawn(command[0], command, os.environ)

    import json

    compiles = _load("shim_compiles")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status == 0:
        try:
            with open(settings_path, encoding="utf-8") as file:
                settings = json.load(file)
            settings["compiler_path"] = compiler_path
            compiles.note_objects(settings, expanded, os.getcwd())
            compiles.record_compile(settings, expanded, os.getcwd(), mode)
            if links:
                store = os.path.dirname(settings["records"])
                link = _load("shim_links").describe_link(expanded, os.getcwd(), settings["root"], store)
                compiles.record_link(settings, link, mode)
        except Exception as error:  # noqa: BLE001 - the build continues if recording fails
            message = f"{type(error).__name__}: {error}"
            compiles.note_failure(os.path.dirname(settings_path), " ".join(arguments)[:500], message)
    return status if status >= 0 else 128 - status


def _groups(argv: Sequence[str]) -> tuple[str, list[str], list[str], list[str], list[str], list[str]]:
    words, position = [], 1
    for _ in range(4):
        start = position + 1
        position = start + int(argv[position])
        words.append(list(argv[start:position]))
    return argv[0], words[0], words[1], words[2], words[3], list(argv[position:])


def _load(name: str) -> Any:
    """Import a file beside this one; a shim runs outside of any package."""
    from importlib import import_module

    # Last, so that nothing hides the standard library: `mlgo_clang` is beside this package.
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path += [os.path.abspath(os.path.join(folder, "../../..")), folder]
    return import_module(name)


def _expand(arguments: Sequence[str], folder: str) -> list[str]:
    """Return the arguments with each `@FILE` replaced by the words of that response file."""
    expanded: list[str] = []
    for argument in arguments:
        path = os.path.join(folder, argument[1:])
        if argument.startswith("@") and os.path.isfile(path):
            import shlex

            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    expanded += _expand(shlex.split(file.read()), folder)
            except (OSError, ValueError):  # the compiler reports the error
                expanded.append(argument)
        else:
            expanded.append(argument)
    return expanded


def _may_name_source(argument: str) -> bool:
    return argument.endswith(_SOURCES) or argument.startswith(("-x", "--language"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
