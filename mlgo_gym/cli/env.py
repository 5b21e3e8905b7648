"""`mlgo-gym env` and `mlgo-gym docs`: cards and manual pages of the environments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import FAILED, JsonOption, echo, show


def env(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of an environment: mlgo/Inline-v0.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show spaces, reward, features, arguments and infos of an environment; without ID, list all environments."""
    from mlgo_gym.cli.env_card import card, card_text, list_text, listed

    if name is None:
        show(as_json, listed(), list_text())
        return
    found = card(name)
    show(as_json, found, card_text(found))


def docs(
    *,
    output: Annotated[Path, typer.Option(help="Folder of the pages.")] = Path("docs/reference/environments"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit status 1 if a page is outdated.")] = False,
) -> None:
    """Write the manual page of each environment."""
    from mlgo_gym.cli.manual_pages import outdated, write_pages

    changed = outdated(output) if check else write_pages(output)
    for name in changed:
        echo(f"{'outdated' if check else 'written'}: {output / name}")
    if check and changed:
        echo("run `mlgo-gym docs`", err=True)
        raise typer.Exit(FAILED)
