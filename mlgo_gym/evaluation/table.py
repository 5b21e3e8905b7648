"""A table of texts, laid out for a narrow page."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_COLUMNS = 80
_GAP = 2


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with headings. The first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self, width: int | None = PAGE_COLUMNS) -> str:
        """Return the table with aligned columns; columns that do not fit `width` go below the others."""
        tables = [list(range(len(self.columns)))] if width is None else fitting_columns(self, width, _GAP)
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
    """Return the column numbers of tables of at most `width` characters that together show a table.

    Each has the first column. A column takes `gap` characters beyond its text.
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
