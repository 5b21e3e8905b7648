"""What a compiler shim runs: the real compile or link, and then, while a build is recorded, what looks at it.

A build starts a shim hundreds of times as `python -I -S shim.py`, so this file stands alone on the standard library
and imports what only a recording needs once the real compiler is through. Every recording is a folder of its own
that appears by a rename, so that parallel shims need no lock; `mlgo_gym.corpus.record` collects them at the end.
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
"""The environment variable that names the settings of a recording; without it a shim only compiles."""

_SOURCES = (
    ".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".i", ".ii",
    ".m", ".mm", ".mi", ".mii", ".s", ".S", ".sx", ".asm", ".cppm", ".ixx", ".ccm", ".cxxm", ".pcm",
    ".cu", ".hip", ".cl", ".h", ".hh", ".hpp", ".hxx", ".H",
)  # fmt: skip
"""How the names end of what is recorded, or counted where it is not."""

_COMPILE_ONLY = frozenset(
    """
    -c -S -E -M -MM -fsyntax-only -### --compile --assemble --preprocess --precompile
    -emit-pch c-header c++-header -xc-header -xc++-header
    """.split()  # noqa: SIM905 - a word list
)
_HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".H", ".pch", ".gch")


def main(argv: Sequence[str]) -> int:
    """Compile or link as asked and, when `$MLGO_RECORD` names a recording, record what was compiled.

    Args:
        argv: the language that the driver assumes (`c` or `c++`); then three times a number and as many words: what
            starts the program that links, what starts the compiler, and what the compiler is given after the
            arguments; then the build's own arguments. Or `by-path` and no words, and the path of a compiler, which is
            run as it is, before the arguments.

    Returns:
        the exit status of the real compiler, whatever becomes of the recording.
    """
    mode, linker, compiler, after, arguments = _groups(argv)
    by_path = None
    if mode == "by-path":
        by_path, *arguments = arguments
        linker = compiler = [by_path]
        mode = "c++" if "++" in os.path.basename(by_path) else "c"
    expanded = _expand(arguments, os.getcwd())
    inputs = [word for word in expanded if not word.startswith("-")]
    only_headers = all(word.endswith(_HEADER_SUFFIXES) for word in inputs)
    links = not _COMPILE_ONLY.intersection(expanded) and not only_headers
    command = [*linker, *arguments] if links else [*compiler, *arguments, *after]
    # Compilers that this one starts by their path are its own affair.
    settings_path = os.environ.pop(SETTINGS_VARIABLE, None)
    if not settings_path or not ((links and inputs) or any(map(_may_name_source, expanded))):
        os.execv(command[0], command)  # noqa: S606 - a shim becomes the compiler
    process = os.posix_spawn(command[0], command, os.environ)

    import json

    compiles = _beside("shim_compiles")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status == 0:
        try:
            with open(settings_path, encoding="utf-8") as file:
                settings = json.load(file)
            settings["by_path"] = by_path
            compiles.note_objects(settings, expanded, os.getcwd())
            compiles.record_compile(settings, expanded, os.getcwd(), mode)
            if links:
                store = os.path.dirname(settings["records"])
                link = _beside("shim_links").describe_link(expanded, os.getcwd(), settings["root"], store)
                compiles.record_link(settings, link, mode)
        except Exception as error:  # noqa: BLE001 - whatever a recording runs into, the build goes on
            compiles.keep_failure(
                os.path.dirname(settings_path), " ".join(arguments)[:500], f"{type(error).__name__}: {error}"
            )
    return status if status >= 0 else 128 - status


def _groups(argv: Sequence[str]) -> tuple[str, list[str], list[str], list[str], list[str]]:
    words, position = [], 1
    for _ in range(3):
        start = position + 1
        position = start + int(argv[position])
        words.append(list(argv[start:position]))
    return argv[0], words[0], words[1], words[2], list(argv[position:])


def _beside(name: str) -> Any:
    """Return a file beside this one, which a script outside of any package imports by its path."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = spec_from_file_location(f"mlgo_gym_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _expand(arguments: Sequence[str], folder: str) -> list[str]:
    """Return the arguments with the contents of response files in place of `@FILE`."""
    expanded: list[str] = []
    for argument in arguments:
        path = os.path.join(folder, argument[1:])
        if argument.startswith("@") and os.path.isfile(path):
            import shlex

            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    expanded += _expand(shlex.split(file.read()), folder)
            except (OSError, ValueError):  # the compiler will say what is wrong with it
                expanded.append(argument)
        else:
            expanded.append(argument)
    return expanded


def _may_name_source(argument: str) -> bool:
    return argument.endswith(_SOURCES) or argument.startswith(("-x", "--language"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
