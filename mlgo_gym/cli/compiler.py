"""What commands that compile have in common: which clang, how much it may take, and what an environment makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mlgo_gym.cli.trust import TrustOption, trusted
from mlgo_gym.errors import MlgoError

ClangOption = Annotated[str | None, typer.Option(help="The clang to use: a path, a name on PATH, or 'bundled'.")]


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """The options of every command that compiles the modules of a corpus."""

    clang: ClangOption = None
    memory_limit: Annotated[
        float | None,
        typer.Option(metavar="GIB", help="The memory of a compile; inf is no limit.", show_default="16"),
    ] = None
    cpu_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="The processor time of a compile; inf is no limit.", show_default="3600"),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A further argument of the environment; VALUE is JSON."),
    ] = None
    trust: TrustOption = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of an environment that the options stand for; none where they were not given.

        Raises:
            MlgoError: `--set` has no name or no equals sign.
        """
        limits = {"memory_limit": self.memory_limit, "cpu_limit": self.cpu_limit}
        return {
            **({} if self.clang is None else {"clang": self.clang}),
            # JSON has no infinity.
            **{name: None if value == float("inf") else value for name, value in limits.items() if value is not None},
            **trusted(self.trust),
            **parse_settings(self.settings or ()),
        }


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the arguments that `NAME=VALUE` texts give; a value that is not JSON is a string.

    Raises:
        MlgoError: a text has no name or no equals sign.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise MlgoError(f"--set takes NAME=VALUE, found {text!r}; for instance --set observation=dict")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings
