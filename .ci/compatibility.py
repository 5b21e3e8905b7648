"""Prints a table of versions and tests from the reports of nox: `make compatibility`.

    nox --report build/nox.json; python .ci/compatibility.py build/nox.json

The table has the sessions that ran, with their versions and the numbers of tests from pytest's report. Of several
reports with one session, the last counts.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build" / "compatibility"
TITLES = ("session", "Python", "gymnasium", "numpy", "clang", "tests", "passed", "skipped", "failed", "result")


def row(signature: str, result: str) -> str | None:
    """Return a session's line of the table; None if it did not run.

    The results of `suite-3.10(lowest-direct)` are in the files `suite-3.10-lowest-direct`.
    """
    found = re.fullmatch(r"(suite-[\d.]+|clang)(?:-[\d.]+)?\((?:compiler=)?'?([^')]*)'?\)", signature)
    label = signature if found is None else f"{found[1]}-{found[2]}"
    versions, report = RESULTS / f"{label}.json", RESULTS / f"{label}.xml"
    if not versions.exists() or not report.exists():
        return None
    facts = json.loads(versions.read_bytes())
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    names = ("tests", "failures", "errors", "skipped")
    tests, failures, errors, skipped = (sum(int(suite.get(name, "0")) for suite in suites) for name in names)
    counts = (tests - failures - errors - skipped, skipped, failures + errors)
    cells = [f"`{signature}`", *(facts[name.lower()] for name in TITLES[1:5])]
    return f"| {' | '.join([*cells, facts['tests'].replace('|', '/'), *map(str, counts), result])} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, help="files of `nox --report`")
    found: dict[str, str] = {}
    for report in parser.parse_args().reports:
        for session in json.loads(report.read_bytes())["sessions"]:
            signature = max(session["signatures"], key=len)  # the longest has all parameters
            if (line := row(signature, session["result"])) is not None:
                found[signature] = line
    order = sorted(found, key=lambda name: (name.startswith("clang"), name))
    print(f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|", *(found[name] for name in order), sep="\n")


if __name__ == "__main__":
    main()
