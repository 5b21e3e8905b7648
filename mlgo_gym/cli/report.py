"""`mlgo-gym report`: what an evaluation has shown, from its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="The --output of an evaluation, finished or not.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print the tables of an evaluation again."""
    from mlgo_gym.cli.sheets import print_result
    from mlgo_gym.evaluation.result import load_result

    print_result(load_result(folder), as_json=as_json)
