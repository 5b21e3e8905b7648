"""Flags that clang finds elsewhere than on its command line: the driver itself is asked, once per set of flags."""

from __future__ import annotations

import os
from binascii import crc32

from mlgo_clang.driver_commands import read_commands, shown_text
from mlgo_clang.files import cache_folder, file_identity, read_untrusted, write_program
from mlgo_clang.invocation import OVERRIDE, Invocation, default_files, expand_response_files, level_of, reason_of_flag
from mlgo_clang.other_machines import target_of
from mlgo_clang.programs import without_outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    _Answer = tuple[str, str, str]
    """Level, reason why the command line is no ordinary compile, and target."""

_FILE = "Configuration file: "
_VARIABLES = ("NIX_", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "CCC_", "CLANG_NO_")
"""Beginnings of the variables with flags that clang, and scripts around it, read."""


def ask_driver(compiler: Sequence[str], rest: Sequence[str], invocation: Invocation) -> tuple[Invocation, str]:
    """Return the meaning of an ordinary compile with all flags that clang finds, and the target that they name.

    The cache keeps an answer until the compiler or a configuration file changes.

    Args:
        compiler: the words that start clang.
        rest: its arguments.
        invocation: the meaning of the arguments alone.
    """
    words = without_outputs(expand_response_files(rest))
    key = _key(compiler, [word for word in words if word != invocation.source])
    path = os.path.join(cache_folder(), "mlgo-clang", "flags", f"{crc32(key.encode(errors='surrogateescape')):08x}")
    answer = _stored(path, key)
    if answer is None:
        text, target, files = _shown(compiler, rest)
        answer = (*_level_and_reason(read_commands(text)), target)
        if text:  # a driver that fails can succeed with the same flags later
            lines = (key, *answer, *(f"{_identity(file)} {file}" for file in files))
            write_program(path, "\n".join(lines).encode(errors="surrogateescape"))
    level, reason, target = answer
    return Invocation(invocation.source, invocation.output, level, reason), target


def _shown(compiler: Sequence[str], rest: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the output of the driver, the target that a file names, and the configuration files."""
    text = shown_text(compiler, rest)
    files = _with_nested([line.removeprefix(_FILE) for line in text.splitlines() if line.startswith(_FILE)])
    if "-target" not in "".join((*files.values(), os.environ.get(OVERRIDE, ""))) or target_of(rest):
        return text, "", list(files)
    # The default target of the bundled clang would replace that of a file.
    text = shown_text([word for word in compiler if not word.startswith("--target=")], rest)
    return text, target_of(text.replace('"', "").split()), list(files)


def _level_and_reason(commands: Sequence[Sequence[str]]) -> tuple[str, str]:
    line = commands[0] if len(commands) == 1 else []
    if "-emit-obj" not in line:
        return "0", "its other flags request other work"
    levels = [level_of(word) for word in line if word.startswith("-O")]
    return levels[-1] if levels else "0", next(filter(None, map(reason_of_flag, line)), "")


def _with_nested(paths: Sequence[str]) -> dict[str, str]:
    """Return the contents of configuration files, and of those that they include by `@FILE`, by path."""
    contents: dict[str, str] = {}
    remaining = list(paths)
    while remaining:
        path = remaining.pop()
        if path in contents or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            contents[path] = file.read()
        folder = os.path.dirname(path)
        words = contents[path].replace("<CFGDIR>", folder).split()
        remaining += [os.path.join(folder, word[1:]) for word in words if word.startswith("@")]
    return contents


def _key(compiler: Sequence[str], flags: Sequence[str]) -> str:
    files = [(path, _identity(path)) for path in (compiler[0], *default_files(compiler[0]))]
    variables = sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES))
    return repr((os.getcwd(), compiler, flags, variables, files))


def _stored(path: str, key: str) -> _Answer | None:
    """Return an answer of the cache whose files have not changed; None without one."""
    try:
        lines = read_untrusted(path).decode(errors="surrogateescape").split("\n")
        known, level, reason, target, *files = lines
    except (OSError, ValueError):
        return None
    pairs = (file.partition(" ") for file in files)
    return (level, reason, target) if known == key and all(_identity(name) == it for it, _, name in pairs) else None


def _identity(path: str) -> str:
    try:
        return file_identity(os.stat(path))
    except OSError:
        return ""
