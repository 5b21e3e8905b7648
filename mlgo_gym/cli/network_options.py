"""How a network is made that a command trains: `--output`, `--hidden`, `--steps` and `--seed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.errors import MlgoError

OutputOption = Annotated[Path, typer.Option(help="The file of the network, in safetensors.")]
HiddenOption = Annotated[str, typer.Option(help="The widths of the hidden layers, with commas between.")]
StepsOption = Annotated[int, typer.Option(min=1, help="Steps of the network's optimiser.")]
SeedOption = Annotated[int, typer.Option(help="The source of chance: the same seed gives the same network.")]


def widths(text: str) -> tuple[int, ...]:
    """Return the widths that a text such as `64,32` names.

    Raises:
        MlgoError: it names none, or one below 1.
    """
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (0,)
    if min(found, default=0) < 1:
        raise MlgoError(f"--hidden takes widths of layers with commas between, as in 64,32; found {text!r}")
    return found
