"""Named tables of the pages, in Markdown, from the same measurements as the named values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from docs.site import explanation_tables, program_tables, results_tables, rust_tables, target_tables, values

Rows = Iterable[Sequence[str]]


def table(heading: Sequence[str], rows: Rows, left: int = 1) -> str:
    """Return a table in Markdown.

    Args:
        heading: The names of the columns.
        rows: The cells of each row.
        left: Number of columns that are not aligned to the right.
    """
    rule = ["---" if number < left else "---:" for number in range(len(heading))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heading, rule, *rows)).replace("|  |", "| |")


def written(rows: Callable[[], Iterator[list[str]]]) -> str:
    """Return a table of rows, the first of which is its heading."""
    heading, *rest = rows()
    return table(heading, rest)


TABLES: dict[str, Callable[[], str]] = {
    name: partial(written, rows)
    for tables in (explanation_tables, program_tables, results_tables, rust_tables, target_tables)
    for name, rows in tables.TABLES.items()
}


def text(name: str) -> str:
    """Return a table.

    Raises:
        UnknownNameError: no table has this name.
    """
    if name not in TABLES:
        raise values.UnknownNameError(f"expected a table of {sorted(TABLES)}, got {name!r}")
    return TABLES[name]()
