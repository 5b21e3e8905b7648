"""What commands that work through the modules of a corpus print of it: how far they are, and which modules failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlgo_gym.cli.output import FAILED, say
from mlgo_gym.cli.progress import progress_over


def collect(lines: Iterable[dict[str, Any]], total: int, what: str, counted: str) -> list[dict[str, Any]]:
    """Return the lines about all modules, and say of each that failed why it did.

    Args:
        lines: one about each module, with `error` where it failed.
        total: how many modules there are.
        what: what a module that failed does not have.
        counted: what is added up as they come; the key of a number in the lines.
    """
    found = []
    count = failed = 0
    with progress_over(total, "Modules") as advance:
        for line in lines:
            found.append(line)
            count, failed = count + line.get(counted, 0), failed + ("error" in line)
            advance(f"{count:,} {counted}" + (f", {failed} failed" if failed else ""))
            if "error" in line:
                say(f"mlgo-gym: {line['module']} has no {what}: {line['error'].splitlines()[0]}", err=True)
    return found


def exit_status(lines: Iterable[dict[str, Any]]) -> int:
    """Return `FAILED` if a module failed, else 0."""
    return FAILED if any("error" in line for line in lines) else 0
