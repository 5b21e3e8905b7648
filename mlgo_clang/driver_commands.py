"""The commands that clang's driver prints with `-###`, each on one line with quoted words; and edits of them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from mlgo_clang.invocation import Invocation

_FILE = "Configuration file: "


def read_commands(text: str) -> list[list[str]]:
    """Return the words of each command; other lines are messages.

    The driver writes a backslash before each quote, backslash and dollar (`Command::printArg` in clang's Job.cpp).
    Unlike in a shell, a word may contain line breaks.
    """
    commands: list[list[str]] = []
    position = 0
    while position < len(text):
        words = []
        while text.startswith(' "', position):
            end, word = position + 2, ""
            while (stop := _end_of_piece(text, end)) >= 0 and text[stop] == "\\":
                word += text[end:stop] + text[stop + 1 : stop + 2]
                end = stop + 2
            if stop < 0:
                break
            words.append(word + text[end:stop])
            position = stop + 1
        if words:
            commands.append(words)
        line_break = text.find("\n", position)
        position = len(text) if line_break < 0 else line_break + 1
    return commands


def _end_of_piece(text: str, start: int) -> int:
    """Return the position of the next quote or backslash; -1 for none."""
    quote, backslash = text.find('"', start), text.find("\\", start)
    return quote if backslash < 0 else min(quote, backslash)


def cc1_commands(text: str) -> list[list[str]]:
    """Return the commands of compiles, from `-cc1` on."""
    return [words[words.index("-cc1") :] for words in read_commands(text) if "-cc1" in words]


def shown_text(
    command: Sequence[str],
    rest: Sequence[str] = (),
    seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a driver with `-###`; an empty text if it fails, or is silent for too long.

    The arguments in `rest` may contain a `--`, after which all words are inputs. Default of the environment: that of
    this process.
    """
    import subprocess

    words = [*command, "-###", *rest]
    try:
        shown = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return ""
    return "" if shown.returncode else os.fsdecode(shown.stderr)


def shown_commands(
    command: Sequence[str], seconds: float = 60.0, environment: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Return the commands that a driver would run; none if it fails, or is silent for too long."""
    return read_commands(shown_text(command, seconds=seconds, environment=environment))


def drop_options(words: Sequence[str], joined: tuple[str, ...], with_value: Container[str]) -> list[str]:
    """Return arguments without options that begin with one of `joined`, or that take the next word as their value."""
    remaining: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in with_value:
            next(rest, None)
        elif not word.startswith(joined):
            remaining.append(word)
    return remaining


def named_output(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Return the output that driver arguments name last, and the position of the argument with it; None without one."""
    output = None
    for position, word in enumerate(arguments):
        if word in ("-o", "--output") and position + 1 < len(arguments):
            output = position + 1, arguments[position + 1]
        elif word.startswith("--output="):
            output = position, word.removeprefix("--output=")
        elif word.startswith("-o") and len(word) > 2 and not word.startswith(("-object", "-objc", "-opt-")):
            output = position, word[2:]
    return output


def ask_driver(compiler: Sequence[str], rest: Sequence[str], invocation: Invocation) -> tuple[Invocation, str]:
    """Return the meaning of an ordinary compile with all flags that clang finds, and the target that they name.

    Args:
        compiler: the words that start clang.
        rest: its arguments.
        invocation: the meaning of the arguments alone.
    """
    from mlgo_clang.invocation import OVERRIDE, Invocation, level_of, reason_of_flag
    from mlgo_clang.other_machines import target_of

    text, target = shown_text(compiler, rest), ""
    files = [line.removeprefix(_FILE) for line in text.splitlines() if line.startswith(_FILE)]
    if "-target" in _contents(files) + os.environ.get(OVERRIDE, "") and not target_of(rest):
        # The default target of the bundled clang would replace that of a file.
        text = shown_text([word for word in compiler if not word.startswith("--target=")], rest)
        target = target_of(text.replace('"', "").split())
    commands = read_commands(text)
    line = commands[0] if len(commands) == 1 else []
    if "-emit-obj" not in line:
        return Invocation(invocation.source, invocation.output, "0", "its other flags request other work"), target
    levels = [level_of(word) for word in line if word.startswith("-O")]
    reason = next(filter(None, map(reason_of_flag, line)), "")
    return Invocation(invocation.source, invocation.output, levels[-1] if levels else "0", reason), target


def _contents(paths: Sequence[str], outer: tuple[str, ...] = ()) -> str:
    """Return the text of configuration files, and of those that they include by `@FILE`."""
    text = ""
    for path in paths:
        if path not in outer and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                content = file.read()
            folder = os.path.dirname(path)
            words = content.replace("<CFGDIR>", folder).split()
            nested = [os.path.join(folder, word[1:]) for word in words if word.startswith("@")]
            text += content + _contents(nested, (*outer, path))
    return text
