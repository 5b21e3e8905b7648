"""Writes the measurements of docs/results into the tables of the pages: `make numbers`.

    python -m docs.site.numbers            # writes them
    python -m docs.site.numbers --check    # prints outdated tables; exit status 1 if there are any

A table stands below `<!-- table: NAME -->`; docs/site/tables.py has the tables. Sentences contain no measurement.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.measuring import MEASURED, ROOT, command_line, read_json
from docs.site import tables

_BLOCK = re.compile(r"(?P<start>^<!-- table: (?P<name>[^ ]+) -->\n)(?:\|.*\n)*", re.MULTILINE)

_MEASUREMENTS = """# Measurements

For people who check a figure: the command of each table, and the days of its oldest and its newest row.

All figures are of clang 22.1.8: the bundled one, or Debian's in builds with a plugin. Files `NAME.json` in
`docs/results` have the data; the figures of the last rows are on their pages alone.

| data | tables | command | oldest | newest |
|---|---|---|---|---|"""


def pages() -> list[Path]:
    """Return the pages that can have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def updated(page: str) -> str:
    """Return a page with the current tables; raise `LookupError` if no table has the name of a block."""
    return _BLOCK.sub(lambda block: block["start"] + tables.text(block["name"]), page)


def measurements_page() -> str:
    """Return the page of the commands and the days of all figures."""
    places: dict[str, str] = {}
    for path in pages():
        for block in _BLOCK.finditer(path.read_text(encoding="utf-8")):
            page = path.relative_to(ROOT).as_posix()
            target = page.removeprefix("docs/").replace("README", "index")
            places[block["name"]] = f"[{block['name']}](../{target})"
    lines = [_MEASUREMENTS]
    for name, row in read_json(MEASURED, {}).items():
        shown = ", ".join(places.get(table, table) for table in row["tables"])
        lines.append(f"| {name} | {shown} | `{row['command']}` | {row['oldest']} | {row['newest']} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the pages."""
    parser = command_line(__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    options = parser.parse_args()
    status = 0
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (current := updated(page)) != page:
            status = int(options.check)
            print(f"{path.relative_to(ROOT)} is out of date")
            if not options.check:
                path.write_text(current, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
