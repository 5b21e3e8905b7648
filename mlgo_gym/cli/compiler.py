"""What commands that compile have in common: the option `--clang`, and what it makes of an environment's arguments."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mlgo_gym.cli.trust import trusted

ClangOption = Annotated[str | None, typer.Option(help="The clang to use: a path, a name on PATH, or 'bundled'.")]


def compiler_arguments(clang: str | None, trust: bool) -> dict[str, Any]:
    """Return the arguments of an environment that `--clang` and `--trust` stand for; none where they were not given."""
    return {**({} if clang is None else {"clang": clang}), **trusted(trust)}
