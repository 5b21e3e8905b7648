"""The commands that pages and programs show are there, and take the options that they are given."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from mlgo_gym.cli.application import application

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROGRAMS = [*sorted((ROOT / "benchmarks").glob("*.py")), *sorted((ROOT / "examples").glob("*.py"))]


def code_of(path: Path) -> Iterator[str]:
    """Return the code blocks of a page, or the indented lines of a program's docstring."""
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
    else:
        text = path.read_text()
        for block in re.findall(r"^```(?:sh|console|text)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            yield from lines_of(block)
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.findall(r"(?:^ {4}.*\n?)+", text, re.MULTILINE):
        yield from lines_of(block)
    for code in re.findall(r"`([^`]+)`", re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)):
        yield " ".join(code.split())


def lines_of(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def commands_in(code: str) -> Iterator[list[str]]:
    """The words of each command of a line of shell."""
    lexer = shlex.shlex(code, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in words:
        if word.strip(";&|()"):
            command.append(word)
        else:
            yield command
            command = []
    yield command


def shown() -> Iterator[tuple[str, list[str]]]:
    """Where a command is shown, and its words from its program on."""
    for path in (*PAGES, *PROGRAMS):
        for code in code_of(path):
            for words in commands_in(code):
                for number, word in enumerate(words):
                    if word.endswith("mlgo-gym") or re.fullmatch(r"(benchmarks|examples)[./]\w+(\.py)?", word):
                        yield str(path.relative_to(ROOT)), words[number:]
                        break


COMMANDS: Any = typer.main.get_command(application)
SHOWN = list(shown())
OURS = [(where, words) for where, words in SHOWN if words[0].endswith("mlgo-gym")]
SCRIPTS = [(where, words) for where, words in SHOWN if not words[0].endswith("mlgo-gym")]


def given_options(words: list[str]) -> list[str]:
    """The options among the words of a command, up to `--`."""
    if "--" in words:
        words = words[: words.index("--")]
    return [word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)]


def test_commands_are_found() -> None:
    assert len(OURS) > 100
    assert len(SCRIPTS) > 50


@pytest.mark.parametrize("where", sorted({where for where, _ in OURS}))
def test_every_command_of_mlgo_gym_is_there_with_its_options(where: str) -> None:
    wrong = []
    for words in (words for place, words in OURS if place == where):
        command, rest = COMMANDS, words[1:]
        while rest and hasattr(command, "commands") and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        if hasattr(command, "commands") and rest and re.fullmatch(r"[a-z-]+", rest[0]) and not rest[0].startswith("-"):
            wrong.append(" ".join(words))
            continue
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        known |= {"--help", "-h", "--install-completion", "--show-completion"}
        wrong += [f"{option} in: {' '.join(words)}" for option in given_options(rest) if option not in known]
    assert wrong == []


@cache
def options_of(program: Path) -> frozenset[str]:
    """The options of a program, as far as its text, and those of the programs that it imports, name them."""
    nodes = list(ast.walk(ast.parse(program.read_text())))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    # A lone "--" begins options that are made of other texts, as in f"--{name}".
    made = {f"--{text}" for text in texts} if "--" in texts else set()
    return frozenset(made.union((text for text in texts if text.startswith("-")), *map(options_of, beside(program))))


def beside(program: Path) -> list[Path]:
    """The programs that one imports."""
    nodes = ast.walk(ast.parse(program.read_text()))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return [ROOT / f"{name.replace('.', '/')}.py" for name in modules if name.startswith("benchmarks.")]


@pytest.mark.parametrize("where", sorted({where for where, _ in SCRIPTS}))
def test_every_program_is_there_with_its_options(where: str) -> None:
    wrong = []
    for words in (words for place, words in SCRIPTS if place == where):
        program = ROOT / (words[0] if words[0].endswith(".py") else f"{words[0].replace('.', '/')}.py")
        if not program.is_file():
            wrong.append(f"no {words[0]}")
            continue
        if words[0].endswith(".py") and len(words) > 1 and beside(program):
            wrong.append(f"it finds what it imports by python -m alone: {' '.join(words)}")
        known = options_of(program)
        wrong += [f"{option} in: {' '.join(words)}" for option in given_options(words[1:]) if option not in known]
    assert wrong == []


def extras_shown() -> Iterator[tuple[str, str]]:
    for path in (*PAGES, *PROGRAMS):
        for names in re.findall(r"(?:mlgo-gym|\.)\[([a-z0-9,_-]+)\]", path.read_text()):
            yield from ((str(path.relative_to(ROOT)), name) for name in names.split(","))


def test_the_extras_that_pages_name_are_there() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    known = re.findall(r"^([a-z0-9-]+) = \[", text.partition("[project.optional-dependencies]")[2], re.MULTILINE)
    shown = sorted(set(extras_shown()))
    assert ("docs/tutorials/smaller_program.md", "corpus") in shown
    assert [each for each in shown if each[1] not in known] == []
