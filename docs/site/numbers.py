"""Writes the measurements of docs/results into the pages: `make numbers`.

    python -m docs.site.numbers            # writes them
    python -m docs.site.numbers --check    # prints outdated places, and figures that no marker covers

A marker in a line is `<!--= NAME -->TEXT<!--=-->`. A table stands between `<!-- table: NAME -->` and
`<!-- table: end -->`. Names are explained in docs/site/values.py; tables are in docs/site/tables.py. With `--check` the
exit status is 1 where a marker's text is outdated or its name is unknown.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.pages import pages_of_docs
from docs.site import tables, values

ROOT = values.ROOT
_INLINE = re.compile(r"<!--= (?P<name>[^ ]+) -->(?P<text>[^\n]*?)<!--=-->")
_BLOCK = re.compile(
    r"^<!-- table: (?P<name>(?!end )[^ ]+) -->\n(?P<text>.*?)^<!-- table: end -->", re.MULTILINE | re.DOTALL
)
_CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(
    r"[+\N{MINUS SIGN}-]?\d[\d,.]*(?:\s(?:to|and)\s[+\N{MINUS SIGN}-]?\d[\d,.]*)?\s?"
    r"(?:%|(?:[mµ]?s|seconds?|minutes?|hours?|[kMG]i?B|bytes|times)\b)"
)
_CONSTANTS = re.compile(r"95\s%")
"""Figures that are no measurements: the confidence of the intervals."""


def pages() -> list[Path]:
    """Return the pages whose figures are written by this program."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(values.NETWORKS.glob("*.md")), *pages_of_docs()]


def markers(page: str) -> Iterator[tuple[re.Match[str], Callable[[str], str]]]:
    """Yield each marker of a page with the function that finds its text."""
    for pattern, find in ((_BLOCK, tables.text), (_INLINE, values.text)):
        yield from ((match, find) for match in pattern.finditer(page))


def updated(page: str) -> str:
    """Return a page with the text of each marker.

    Raises:
        UnknownNameError: no measurement or table has the name of a marker.
    """
    edits = [(match.span("text"), find(match["name"])) for match, find in markers(page)]
    for (start, end), text in sorted(edits, reverse=True):
        page = page[:start] + text + page[end:]
    return page


def outdated(page: str) -> list[str]:
    """Return a line for each marker whose text differs, or whose name is unknown."""
    found = []
    for match, find in markers(page):
        line = page.count("\n", 0, match.start()) + 1
        try:
            text = find(match["name"])
        except values.UnknownNameError as error:
            found.append(f"{line}: {error}")
            continue
        if text != match["text"]:
            expected, got = (text, match["text"]) if len(text) < 40 else ("another table", "this one")
            found.append(f"{line}: {match['name']}: expected {expected!r}, got {got!r}")
    return found


def uncovered(page: str) -> list[str]:
    """Return a line for each percentage, time or size that no marker covers, outside code and links."""
    for pattern in (_BLOCK, _INLINE, _CODE):
        page = pattern.sub(lambda match: "\n" * match[0].count("\n"), page)
    found = []
    for number, line in enumerate(page.splitlines(), 1):
        found += [f"{number}: {figure[0]}" for figure in _FIGURE.finditer(_CONSTANTS.sub("", line))]
    return found


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    options = parser.parse_args()
    status = 0
    for path in pages():
        name, page = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        if not options.check:
            new = updated(page)
            if new != page:
                path.write_text(new, encoding="utf-8")
                print(f"{name}: written")
            continue
        for line in outdated(page):
            print(f"{name}:{line}")
            status = 1
        for line in uncovered(page):
            print(f"{name}:{line}: warning: no marker")
    return status


if __name__ == "__main__":
    sys.exit(main())
