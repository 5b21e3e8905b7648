"""Writes and prints the table of docs/reference/compatibility.md from the reports of nox: `make compatibility`.

    nox --report build/nox.json; python benchmarks/compatibility.py build/nox.json

The table has the sessions that ran, with their versions and the numbers of tests from pytest's report. Of several
reports with one session, the last counts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
RESULTS = ROOT / "build" / "compatibility"
BEGIN, END = "<!-- written by benchmarks/compatibility.py -->\n", "<!-- end -->"


def label_of(signature: str) -> str:
    """Return the file name of a session's results: `suite-3.10-lowest-direct` for `suite-3.10(lowest-direct)`."""
    found = re.fullmatch(r"(suite-[\d.]+|clang)(?:-[\d.]+)?\((?:compiler=)?'?([^')]*)'?\)", signature)
    return signature if found is None else f"{found[1]}-{found[2]}"


def row(signature: str, result: str) -> str | None:
    """Return a session's line of the table; None if it did not run."""
    label = label_of(signature)
    versions, report = RESULTS / f"{label}.json", RESULTS / f"{label}.xml"
    if not versions.exists() or not report.exists():
        return None
    facts = json.loads(versions.read_bytes())
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for each in suites:
        for name in counts:
            counts[name] += int(each.get(name, "0"))
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    cells = [
        f"`{signature}`",
        *(facts[name] for name in ("python", "gymnasium", "numpy", "clang")),
        facts["tests"].replace("|", "/"),
        str(passed),
        str(counts["skipped"]),
        str(failed),
        result,
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="files of `nox --report`")
    options = parser.parse_args()
    found: dict[str, str] = {}
    for report in options.reports:
        for session in json.loads(report.read_bytes())["sessions"]:
            signature = max(session["signatures"], key=len)  # the longest has all parameters
            line = row(signature, session["result"])
            if line is not None:
                found[signature] = line
    titles = ["session", "Python", "gymnasium", "numpy", "clang", "tests", "passed", "skipped", "failed", "result"]
    order = sorted(found, key=lambda name: (name.startswith("clang"), name))
    table = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *(found[name] for name in order)]
    before, mark, rest = PAGE.read_text().partition(BEGIN)
    if not mark or END not in rest:
        sys.exit(f"expected the lines {BEGIN!r} and {END!r} in {PAGE}, got neither or one; restore them")
    PAGE.write_text(before + BEGIN + "\n".join(table) + "\n" + END + rest.partition(END)[2])
    print("\n".join(table))


if __name__ == "__main__":
    main()
