"""Which modules of a corpus a command takes: `--largest` and `--limit`."""

from __future__ import annotations

from typing import Annotated

import typer

LargestOption = Annotated[int | None, typer.Option(help="Leave out modules with more bytes of bitcode.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Take so many modules, drawn at random.")]
