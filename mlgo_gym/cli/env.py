"""`mlgo-gym env`: an environment's card, or which environments there are."""

from __future__ import annotations

from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, show


def env(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="The environment, as mlgo/Inline-v0.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show what an environment sees, does, is rewarded with and takes; without a name, which there are."""
    from mlgo_gym.cli.env_card import card, card_text, list_text, listed

    if name is None:
        show(as_json, listed(), list_text())
        return
    found = card(name)
    show(as_json, found, card_text(found))
