"""Where commands that compile do so: `--jobs` and `--ray`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from mlgo_gym.scheduling.ray_cluster import ray_address

JobsOption = Annotated[
    int | None,
    typer.Option(min=1, help="How many processes.", show_default="1; with --ray one for each processor of the cluster"),
]

RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        help="Compile on the machines of the Ray cluster at ADDRESS, HOST:PORT; without one at $RAY_ADDRESS, or one of "
        "this machine.",
    ),
]

_ADDRESS = re.compile(r"auto|local|ray://.+|[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+")
_OPTION = "--ray"


def address_of(ray: str | None) -> str | None:
    """Return the address that the option stands for; None where it was not given."""
    return None if ray is None else ray_address(ray)


def with_addresses(words: Sequence[str]) -> list[str]:
    """Return the words of a command line in which `--ray` has a value, an empty one where no address follows it.

    The library of the command line knows no options whose value can be left out.
    """
    done: list[str] = []
    for number, word in enumerate(words):
        follows = words[number + 1] if number + 1 < len(words) else ""
        done.append(f"{_OPTION}=" if word == _OPTION and not _ADDRESS.fullmatch(follows) else word)
    return done
