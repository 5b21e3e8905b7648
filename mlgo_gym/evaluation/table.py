"""A table of texts, and how it fits a narrow page."""

from __future__ import annotations

from dataclasses import dataclass

PAGE = 80
"""The columns of a page on which tables of plain text fit."""

_GAP = 2
"""The spaces between columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts.

    Attributes:
        title: what it shows.
        columns: the headings; the first column is text, the others are numbers.
        rows: the cells.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self, width: int | None = PAGE) -> str:
        """Return the table with aligned columns; those that do not fit the width go below the others."""
        whole = [list(range(len(self.columns)))]
        tables = whole if width is None else fitting_columns(self, width, _GAP)
        return "\n\n".join([self.title, *map(self._aligned, tables)])

    def _aligned(self, columns: list[int]) -> str:
        lines = [tuple(line[column] for column in columns) for line in (self.columns, *self.rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        gap = " " * _GAP
        aligned = [
            gap.join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        ]
        return "\n".join([aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])


def fitting_columns(table: Table, width: int, gap: int) -> list[list[int]]:
    """Return the columns of each of the narrower tables that show a table; all have its first column.

    Args:
        table: the table.
        width: the columns of the page.
        gap: what a column takes beyond its text.
    """
    first, *widths = (max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True))
    tables: list[list[int]] = []
    free = 0
    for column, needed in enumerate(widths, start=1):
        if needed + gap > free:
            tables.append([0])
            free = width - first
        tables[-1].append(column)
        free -= needed + gap
    return tables or [[0]]
