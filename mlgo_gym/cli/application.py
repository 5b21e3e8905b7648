"""The commands of `mlgo-gym`. Each is imported when it is used: most libraries take longer to import than a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mlgo_gym import __version__
from mlgo_gym.cli.interface import echo, option, with_options

GROUPS = {
    "corpus": "Inspect, make and verify corpora.",
    "export": "Policies for other compilers and tools.",
    "recipes": "Decisions that searches found.",
    "train": "Train policies: from labels, from other policies, or from a corpus.",
}
COMMANDS = {
    "build": "build.build",
    "cc-stats": "recipes.cc_stats",
    "compare": "evaluate.compare",
    "demo": "evaluate.demo",
    "doctor": "doctor.doctor",
    "env": "reference.env",
    "evaluate": "evaluate.evaluate",
    "explain": "evaluate.explain",
    "label": "train.label",
    "link-facts": "recipes.link_facts",
    "report": "evaluate.report",
    "search": "recipes.search",
    "trace": "trace.trace",
    "validate": "trace.validate",
    "corpus list": "corpus.list_command",
    "corpus info": "corpus.info",
    "corpus verify": "corpus.verify_command",
    "corpus overlap": "corpus.overlap",
    "corpus fetch": "corpus.fetch",
    "corpus catalogue": "corpus.catalogue",
    "corpus extract": "corpus.extract",
    "corpus import": "corpus.import_command",
    "corpus record": "corpus.record",
    "corpus prepare": "corpus.prepare",
    "export plugin": "export.plugin",
    "export cpp": "export.cpp",
    "export llvm-header": "export.llvm_header",
    "export onnx": "export.onnx",
    "export tflite": "export.tflite",
    "export tosa": "export.tosa",
    "recipes list": "recipes.list_recipes",
    "recipes verify": "recipes.verify",
    "recipes prune": "recipes.prune",
    "train imitation": "train.imitation",
    "train clone": "train.clone",
    "train policy": "train.policy",
}
"""The commands by name, each a function of a module in this package."""


class _Commands(Mapping[str, Any]):
    """The commands and the groups of a group, by name."""

    def __init__(self, group: str) -> None:
        self._prefix = f"{group} ".lstrip()
        names = (name.removeprefix(self._prefix) for name in COMMANDS if name.startswith(self._prefix))
        self._names = dict.fromkeys(name.partition(" ")[0] for name in names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Any:
        if name in GROUPS and not self._prefix:
            # LLVM's mlgo-utils spell options with underscores.
            settings = {"token_normalize_func": lambda word: word.replace("_", "-")} if name == "corpus" else {}
            return CommandGroup(name=name, help=GROUPS[name], no_args_is_help=True, context_settings=settings)
        module, _, function = COMMANDS[self._prefix + name].partition(".")
        command = with_options(getattr(import_module(f"mlgo_gym.cli.{module}"), function))
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name)(command)
        return typer.main.get_command(alone)

    def summary(self, name: str) -> str:
        """Return the first paragraph of the help text of a command or a group without an import."""
        if name in GROUPS and not self._prefix:
            return GROUPS[name]
        module, _, function = COMMANDS[self._prefix + name].partition(".")
        text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        return text.partition(f"\ndef {function}(")[2].split('"""')[1].partition("\n\n")[0]


class CommandGroup(TyperGroup):
    """A group of `COMMANDS`."""

    def __init__(self, *, name: str | None = None, **settings: Any) -> None:
        super().__init__(name=name, **settings)
        self._lazy = _Commands("" if name == "mlgo-gym" else name or "")
        self.commands = self._lazy  # type: ignore[assignment] # typer only reads it

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002, D102 - as click declares it
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: D102 - as click declares it
        self.commands = {name: TyperCommand(name, short_help=self._lazy.summary(name)) for name in self._lazy}
        super().format_help(ctx, formatter)


application = typer.Typer(
    name="mlgo-gym",
    cls=CommandGroup,
    help="Learn, measure and ship optimisation policies for a stock clang.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(show: bool) -> None:
    if show:
        echo(f"mlgo-gym {__version__}")
        raise typer.Exit


@application.callback()
def _options(
    *,
    version: Annotated[
        bool, option("Print the version and exit.", "--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    del version
