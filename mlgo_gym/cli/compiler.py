"""What commands that compile have in common: which clang, how much it may take, and what an environment makes of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mlgo_gym.cli.trust import trusted

ClangOption = Annotated[str | None, typer.Option(help="The clang to use: a path, a name on PATH, or 'bundled'.")]

MemoryOption = Annotated[
    float | None,
    typer.Option("--memory-limit", metavar="GIB", help="The memory of a compile; inf is no limit.", show_default="16"),
]

CpuOption = Annotated[
    float | None,
    typer.Option(
        "--cpu-limit", metavar="SECONDS", help="The processor time of a compile; inf is no limit.", show_default="3600"
    ),
]


def compiler_arguments(
    clang: str | None, trust: bool, memory: float | None = None, cpu: float | None = None
) -> dict[str, Any]:
    """Return the arguments of an environment that the options stand for; none where they were not given."""
    return {**({} if clang is None else {"clang": clang}), **limits(memory, cpu), **trusted(trust)}


def limits(memory: float | None, cpu: float | None) -> dict[str, Any]:
    """Return the arguments of an environment that limit each compile."""
    given = {"memory_limit": memory, "cpu_limit": cpu}
    # JSON has no infinity.
    return {name: None if value == float("inf") else value for name, value in given.items() if value is not None}
