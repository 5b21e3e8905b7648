"""The commands of `mlgo-gym`."""

from __future__ import annotations

from typing import Annotated

import typer

from mlgo_gym import __version__
from mlgo_gym.cli.corpus import corpus_commands
from mlgo_gym.cli.doctor import doctor
from mlgo_gym.cli.env import docs, env
from mlgo_gym.cli.evaluate import demo, evaluate
from mlgo_gym.cli.explain import explain, importance
from mlgo_gym.cli.export import export_commands
from mlgo_gym.cli.label import label
from mlgo_gym.cli.link_facts import link_facts
from mlgo_gym.cli.options import option
from mlgo_gym.cli.output import echo
from mlgo_gym.cli.recipes import cc_stats, recipes_commands
from mlgo_gym.cli.report import compare, report
from mlgo_gym.cli.reproduce import replay, reproduce, trace, validate
from mlgo_gym.cli.search import search
from mlgo_gym.cli.train import train_commands

application = typer.Typer(
    name="mlgo-gym",
    help="Learn, measure and ship optimisation policies for a stock clang.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, group in (
    ("corpus", corpus_commands),
    ("export", export_commands),
    ("recipes", recipes_commands),
    ("train", train_commands),
):
    application.add_typer(group, name=name)
for command in (
    *(cc_stats, compare, demo, docs, doctor, env, evaluate, explain, importance),
    *(label, link_facts, replay, report, reproduce, search, trace, validate),
):
    application.command()(command)


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
