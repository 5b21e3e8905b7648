"""A smoke detector for the language rules of CONTRIBUTING.md; reading aloud is the judge."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("mlgo_gym", "mlgo_clang", "envs", "benchmarks", "examples", "tests", ".ci")
LONGEST = 35
"""Words in a sentence."""

BANNED = {
    "an old word for predict": r"\bforet(?:ell|old)",
    "an old word for expected": r"\bw(?:as|ere) (?:wanted|to be)\b",
    "an old word for a number": r"\b[Ss]o many\b",
    "an old word for bundled": r"\b(?:the|our|a) box\b|\bboxed\b",
    "an old word for instead of": r"\bin (?:the|its|their) place of\b",
    "an old word for reproduce": r"\bma(?:ke|kes|de|king) (?:\w+ )?again\b",
    "an old word for CPU time": r"\bprocessors?'?s? time\b",
    "an old word for untrusted": r"\bstrangers?\b",
    "an old word for a pipeline": r"\bthe (?:whole )?road\b",
    "an old word for running": r"\bunder way\b",
    "an old word for exclude": r"\b(?:leave|leaves|leaving) out\b|\bleft out\b",
    "an old word for evaluated policies": r"\bcontestants?\b",
}
STARTS = re.compile(
    r"(?:\A|(?<=[.!;:] )|(?<=\n\n))"
    r"(What|Who|Whoever|That which|Of which|Beside|So many|Such|Likewise)\b[^?.]*(?=[.,;:]|\Z)"
)
SENTENCE_END = re.compile(r"[.!?:;](?=\s|\Z)|\n\s*\n|\n\s*(?:[-*|>#]|\d+\.)\s")


def python_files() -> list[Path]:
    found = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if not path.name.startswith("test_language")]


def texts(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, the text and whether it is prose, of each docstring, comment and string."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                docstrings.add(statement.lineno)
                if isinstance(statement.value.value, str):
                    yield statement.lineno, statement.value.value, True
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#(?:!| (?:noqa|ruff:|type:|fmt:|mypy:))", token.string):
            line = token.start[0]
            if comment and line != last + 1:
                yield first, " ".join(comment), True
                comment = []
            if not comment:
                first = line
            comment.append(token.string.lstrip("# ").partition("  # ")[0])
            last = line
        elif token.type == tokenize.STRING and token.start[0] not in docstrings:
            yield token.start[0], token.string, False
    if comment:
        yield first, " ".join(comment), True


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of prose; code in backquotes counts as one word, and indented blocks are code."""
    prose = re.sub(r"```.*?```|(?:^|\n)(?: {4,}|\t)\S[^\n]*::?\n", "\n\n", text, flags=re.DOTALL)
    prose = re.sub(r"`[^`]*`", "code", prose)
    prose = re.sub(r"\n(\s*\w+(?: \([^)]*\))?:) ", r"\n\n\1 ", prose)  # "name: description" in Args
    prose = re.sub(r"^\s*\|.*$", "\n\n", prose, flags=re.MULTILINE)
    for sentence in SENTENCE_END.split(prose):
        if sentence and sentence.strip():
            yield " ".join(sentence.split())


def problems(source: str) -> Iterator[str]:
    """Yield what is wrong with the language of a Python file, with its line."""
    for line, text, is_prose in texts(source):
        for reason, pattern in BANNED.items():
            if found := re.search(pattern, text):
                yield f"{line}: {reason}: {found[0]!r}"
        if is_prose:
            if found := STARTS.search(text.strip()):
                yield f"{line}: a clause as the subject: {found[0][:60]!r}"
            for sentence in sentences(text):
                if len(words := sentence.split()) > LONGEST:
                    yield f"{line}: {len(words)} words in a sentence: {' '.join(words[:8])} …"


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_language_of_a_file_follows_the_rules(path: Path) -> None:
    assert list(problems(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""What the compiler cuts off counts."""',
        "# The call was foretold.",
        'message = "one of them was wanted"',
        f'"""{"word " * 36}."""',
    ],
)
def test_a_violation_is_found(source: str) -> None:
    assert list(problems(source + "\n"))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for file in sorted(Path(name).rglob("*.py")) if Path(name).is_dir() else [Path(name)]:
            for problem in problems(file.read_text(encoding="utf-8")):
                sys.stdout.write(f"{file}:{problem}\n")
