"""Whether labels, and the networks that learn from them, see calls."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mlgo_gym.cli.compiler import CompilerOptions

CallsOption = Annotated[
    bool, typer.Option("--calls", help="See which function is called and what was decided before, as inline-oz.")
]


def arguments_with(compiler: CompilerOptions, *, calls: bool) -> dict[str, Any]:
    """Return the arguments of an environment.

    Args:
        compiler: the options of the compiler.
        calls: whether it foretells calls.
    """
    return {**compiler.arguments(), **({"calls": True} if calls else {})}
