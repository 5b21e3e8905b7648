"""Tables as Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlgo_gym.evaluation.table import Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\dots{}", "→": r"$\to$", "τ": r"$\tau$",
}  # fmt: skip


def as_markdown(tables: Sequence[Table], lines: Sequence[str] = ()) -> str:
    """Return tables as GitHub Markdown, followed by lines as a list."""
    parts = [_markdown(table) for table in tables]
    parts += ["\n".join(f"- {_cell(line.strip())}" for line in lines)] if lines else []
    return "\n\n".join(parts)


def _markdown(table: Table) -> str:
    rows = [table.columns, tuple("---" if not number else "---:" for number in range(len(table.columns))), *table.rows]
    body = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return f"**{_cell(table.title)}**\n\n{body}"


def _cell(text: str) -> str:
    return re.sub(r"([|\\`*_<>\[\]])", r"\\\1", text)


def as_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX for the package booktabs."""
    return "\n\n".join(["% needs \\usepackage{booktabs}", *map(_latex, tables)])


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(map(_escape, cells))} \\\\"

    return "\n".join([
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(table.title)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"\toprule",
        line(table.columns),
        r"\midrule",
        *map(line, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ])  # fmt: skip


def _escape(text: str) -> str:
    escaped = "".join(_SPECIAL.get(letter, letter) for letter in text)
    # A minus sign is longer than a hyphen. A bracket at the start of a row would be parsed as an argument.
    return re.sub(r"(?<![\w])-(?=\d)", "$-$", escaped).replace("[", "{[}").replace("]", "{]}")
