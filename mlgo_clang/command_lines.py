"""Command lines of clang: the files that they name, the commands that its driver prints with `-###`, and edits."""

from __future__ import annotations

import os

from mlgo_clang.compiler import MULTIARCH, which

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

_NO_LINK = frozenset(("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-###", "--version", "-v"))


def level_of(word: str) -> str:
    """Return the level that clang makes of a flag `-O…`: `0`, `1`, `2`, `3`, `s` or `z`; other letters as they are."""
    level = word.removeprefix("-").removeprefix("O")
    if level.isascii() and level.isdigit():
        return str(min(int(level), 3))
    return {"": "1", "g": "1", "fast": "3"}.get(level, level)


def expand_response_files(arguments: Sequence[str], folder: str = "", outer: tuple[str, ...] = ()) -> list[str]:
    """Return the arguments with each readable response file `@FILE`, also in another one, replaced by its contents.

    Paths are relative to `folder`, as in clang. A file in itself stays, and clang reports it.
    """
    expanded = []
    for argument in arguments:
        path = os.path.join(folder, argument[1:]) if argument.startswith("@") else ""
        try:
            words = _words_of_file(path) if path not in outer and os.path.isfile(path) else None
        except (OSError, ValueError):  # clang reports the problem
            words = None
        expanded += [argument] if words is None else expand_response_files(words, folder, (*outer, path))
    return expanded


def _words_of_file(path: str) -> list[str]:
    with open(path, "rb") as file:
        return _split_words(os.fsdecode(file.read().removeprefix(b"\xef\xbb\xbf")))


def _split_words(text: str) -> list[str]:
    """Return the words of a response file (`TokenizeGNUCommandLine` in LLVM's CommandLine.cpp).

    Unlike in a shell, a backslash escapes each next character also in quotes, and an empty word is none.
    """
    import re

    words, word = [], ""
    pieces = r"""\\(.)|"((?:[^"\\]|\\.)*)"?|'((?:[^'\\]|\\.)*)'?|([ \t\r\n]+)|(.)"""
    for piece in re.finditer(pieces, text, re.DOTALL):
        escaped, double, single, blank, plain = piece.groups()
        if blank is None:
            quoted = double if double is not None else single
            word += (escaped or plain) if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        elif word:
            words.append(word)
            word = ""
    return [*words, word] if word else words


_FILE = "Configuration file: "


def configured_words(shown: str) -> list[str]:
    """Return the words of the configuration files that a driver names in its output with `-###`."""
    lines = shown.splitlines()
    return _words_of_configurations([line.removeprefix(_FILE) for line in lines if line.startswith(_FILE)])


def _words_of_configurations(paths: Sequence[str], outer: tuple[str, ...] = ()) -> list[str]:
    words = []
    for path in paths:
        if path in outer or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().replace("\\\n", "").splitlines()
        folder = os.path.dirname(path)
        text = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("<CFGDIR>", folder)
        for word in _split_words(text):
            nested = word.removeprefix("--config=").removeprefix("@")
            if nested == word:
                words.append(word.removeprefix("$"))
            else:
                words += _words_of_configurations([os.path.join(folder, nested)], (*outer, path))
    return words


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
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return ""
    return "" if shown.returncode else os.fsdecode(shown.stderr)


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


def target_of(arguments: Sequence[str]) -> str:
    """Return the last target that a command line names; empty if it is that of this machine, or there is none.

    The command line is of clang's driver, of its `-cc1`, or of rustc.
    """
    target = before = ""
    for word in arguments:
        if word.startswith("--target="):
            target = word.removeprefix("--target=")
        elif before in ("-target", "-triple", "--target"):
            target = word
        before = word
    return "" if target == MULTIARCH else target


def missing_linker(command: Sequence[str]) -> str:
    """Return the linker that a command of clang needs and cannot find; empty if it needs none or finds it.

    Clang itself reports only that a program could not be started.
    """
    if not _NO_LINK.isdisjoint(command) or which("ld") or which(f"{MULTIARCH}-ld"):
        return ""
    commands = read_commands(shown_text(command))
    program = commands[-1][0] if commands else ""
    return "" if which(program) else program
