"""`mlgo-gym cc-stats`: what became of the compiles of `mlgo-clang`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, show


def cc_stats(
    *,
    zero: Annotated[bool, typer.Option("--zero", help="Count from 0 again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how many compiles of mlgo-clang went through a policy, and how many did not, and why.

    The counters are in the cache folder, one file for all builds.
    """
    from mlgo_clang.counters import counters_path, parse

    path = Path(counters_path())
    counters = parse(path.read_bytes()) if path.exists() else {}
    ordered = sorted(counters.items(), key=lambda item: (item[0].startswith("because "), -item[1]))
    lines = [f"{number:8}  {name}" for name, number in ordered]
    show(as_json, dict(ordered), "\n".join(lines or ["nothing was compiled by mlgo-clang"]))
    if zero:
        path.unlink(missing_ok=True)
