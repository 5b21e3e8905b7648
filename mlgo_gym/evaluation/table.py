"""A table of texts: aligned for a narrow page, Markdown, LaTeX; and the formats of its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlgo_gym.evaluation.statistics import Estimate
from mlgo_gym.tasks.measurement import BYTE_METRICS

PAGE_COLUMNS = 80
_GAP = 2
_LONGEST = 46

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\dots{}", "→": r"$\to$", "τ": r"$\tau$",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with headings. The first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self, width: int | None = PAGE_COLUMNS) -> str:
        """Return the table with aligned columns; columns that do not fit `width` go below the others."""
        tables = [list(range(len(self.columns)))] if width is None else self.fitting_columns(width, _GAP)
        return "\n\n".join([self.title, *map(self._aligned, tables)])

    def _aligned(self, columns: list[int]) -> str:
        lines = [tuple(line[column] for column in columns) for line in (self.columns, *self.rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        gap = " " * _GAP
        aligned = [
            gap.join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        ]
        return "\n".join([aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])

    def fitting_columns(self, width: int, gap: int) -> list[list[int]]:
        """Return the column numbers of tables of at most `width` characters that together show this table.

        Each table has the first column. A column takes `gap` characters beyond its text.
        """
        first, *widths = (max(map(len, cells)) for cells in zip(self.columns, *self.rows, strict=True))
        tables: list[list[int]] = []
        free = 0
        for column, needed in enumerate(widths, start=1):
            if needed + gap > free:
                tables.append([0])
                free = width - first
            tables[-1].append(column)
            free -= needed + gap
        return tables or [[0]]

    def as_markdown(self) -> str:
        """Return the table as GitHub Markdown."""
        lines = [self.columns, ("---", *["---:"] * (len(self.columns) - 1)), *self.rows]
        rows = (f"| {' | '.join(map(escape_markdown, line))} |" for line in lines)
        return "\n".join((f"**{escape_markdown(self.title)}**\n", *rows))

    def as_latex(self) -> str:
        """Return the table as LaTeX for the package booktabs."""
        heading, *rows = (f"{' & '.join(map(_escape_latex, line))} \\\\" for line in (self.columns, *self.rows))
        return "\n".join([
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escape_latex(self.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            *(r"\toprule", heading, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}",
            r"\end{table}",
        ])  # fmt: skip


def escape_markdown(text: str) -> str:
    """Return a text for a cell or a paragraph of Markdown."""
    return re.sub(r"([|\\`*_<>\[\]])", r"\\\1", text)


def _escape_latex(text: str) -> str:
    escaped = "".join(_SPECIAL.get(letter, letter) for letter in text)
    # A minus sign is longer than a hyphen. A bracket at the start of a row would be parsed as an argument.
    return re.sub(r"(?<![\w])-(?=\d)", "$-$", escaped).replace("[", "{[}").replace("]", "{]}")


def all_as_markdown(tables: Sequence[Table], lines: Sequence[str] = ()) -> str:
    """Return tables as Markdown, followed by lines as a list."""
    listed = "\n".join(f"- {escape_markdown(line.strip())}" for line in lines)
    return "\n\n".join([*(table.as_markdown() for table in tables), *([listed] if lines else [])])


def all_as_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX, below the package that they need."""
    return "\n\n".join(["% needs \\usepackage{booktabs}", *(table.as_latex() for table in tables)])


def with_unit(metric: str) -> str:
    """Return a metric's name with its unit, such as `text bytes`; costs have no unit."""
    return f"{metric} bytes" if metric in BYTE_METRICS else metric


def number(value: float) -> str:
    """Return a size or a cost, rounded to an integer."""
    return f"{value:,.0f}"


def signed(value: float) -> str:
    """Return a difference of sizes or costs."""
    return f"{value:+,.0f}" if value else "0"


def percent(value: float) -> str:
    """Return a relative change: -0.02 is `-2.00 %`."""
    return f"{100 * value:+.2f} %" if value else "0"


def change(estimate: Estimate) -> str:
    """Return a relative change in percent with its interval: `-2.00 [-3.10, -0.90]`."""
    value = f"{100 * estimate.value:+.2f}" if estimate.value else "0"
    if estimate.interval is None or not any((estimate.value, *estimate.interval)):
        return value
    low, high = estimate.interval
    return f"{value} [{100 * low:+.2f}, {100 * high:+.2f}]"


def probability(estimate: Estimate) -> str:
    """Return a probability in percent with its interval: `62 % [55, 70]`."""
    ends = "" if estimate.interval is None else " [{:.0f}, {:.0f}]".format(*(100 * end for end in estimate.interval))
    return f"{100 * estimate.value:.0f} %{ends}"


def count(quantity: int, noun: str) -> str:
    """Return a count with its noun: `1 module`, `1,200 modules`."""
    return f"{quantity:,} {noun}{'s' * (quantity != 1)}"


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name of at most `longest` characters, its middle replaced by an ellipsis."""
    if len(name) <= longest:
        return name
    end = (longest - 1) * 2 // 3
    return f"{name[: longest - 1 - end]}…{name[-end:]}"
