"""`mlgo-gym report`: what an evaluation has shown, from its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="The --output of an evaluation, finished or not.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the tables to this file as a picture, too.")] = None,
) -> None:
    """Print the tables of an evaluation again."""
    from mlgo_gym.cli.tables import draw_result, print_result
    from mlgo_gym.evaluation.result import load_result

    result = load_result(folder)
    print_result(result, as_json=as_json, everything=True)
    if svg is not None:
        draw_result(result, svg, title=f"mlgo-gym report {folder.name}")
