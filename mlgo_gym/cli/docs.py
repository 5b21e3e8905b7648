"""`mlgo-gym docs`: the manual pages of the environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import say

OUTDATED = 1
"""The exit status of `--check` when a page is not current."""


def docs(
    *,
    output: Annotated[Path, typer.Option(help="The folder of the pages.")] = Path("docs/environments"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with status 1 if a page is not current.")
    ] = False,
) -> None:
    """Write the manual page of each environment, with the tables of its features."""
    from mlgo_gym.cli.manual_pages import outdated, write_pages

    changed = outdated(output) if check else write_pages(output)
    for name in changed:
        say(f"{'not current' if check else 'written'}: {output / name}")
    if check and changed:
        say("run `mlgo-gym docs`", err=True)
        raise typer.Exit(OUTDATED)
