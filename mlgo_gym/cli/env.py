"""`mlgo-gym env` and `mlgo-gym docs`: cards and manual pages of the environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import FAILED, JsonOption, echo, print_json, show


def env(
    name: Annotated[str | None, argument("Id of an environment: mlgo/Inline-v0.", metavar="[ID]")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the manual of an environment: spaces, reward, arguments, infos and features; without ID, list all."""
    from mlgo_gym.cli.reference import card, listed, manual

    if name is None:
        environments = listed()
        show(as_json, environments, "\n".join(f"{entry['id']:24}{entry['summary']}" for entry in environments))
    elif as_json:
        print_json(card(name))
    else:
        echo(manual(name))


def docs(
    *,
    output: Annotated[Path, option("Folder of the pages.")] = Path("docs/reference/environments"),
    check: Annotated[bool, option("Write nothing; exit status 1 if a page is outdated.", "--check")] = False,
) -> None:
    """Write the manual page of each environment."""
    from mlgo_gym.cli.reference import outdated, write_pages

    changed = outdated(output) if check else write_pages(output)
    for name in changed:
        echo(f"{'outdated' if check else 'written'}: {output / name}")
    if check and changed:
        echo("run `mlgo-gym docs`", err=True)
        raise typer.Exit(FAILED)
