"""The option of every command that names a corpus: `--trust`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

TrustOption = Annotated[
    bool, typer.Option(help="Run the flags of the corpus whatever they are; only for one whose maker you know.")
]


def trusted(trust: bool) -> dict[str, Any]:
    """Return the argument of an environment that the option stands for; none where it was not given."""
    return {"trust": True} if trust else {}
