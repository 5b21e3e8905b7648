"""Every command of `mlgo-gym` in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from mlgo_gym import __version__
from mlgo_gym.cli.cc_stats import cc_stats
from mlgo_gym.cli.compare import compare
from mlgo_gym.cli.corpus import corpus_commands
from mlgo_gym.cli.docs import docs
from mlgo_gym.cli.doctor import doctor
from mlgo_gym.cli.env import env
from mlgo_gym.cli.evaluate import evaluate
from mlgo_gym.cli.explain import explain
from mlgo_gym.cli.export import export_commands
from mlgo_gym.cli.importance import importance
from mlgo_gym.cli.label import label
from mlgo_gym.cli.leaderboard import leaderboard_commands
from mlgo_gym.cli.output import say
from mlgo_gym.cli.recipes import recipes_commands
from mlgo_gym.cli.replay import replay
from mlgo_gym.cli.report import report
from mlgo_gym.cli.reproduce import reproduce
from mlgo_gym.cli.search import search
from mlgo_gym.cli.trace import trace
from mlgo_gym.cli.train import train_commands
from mlgo_gym.cli.validate import validate

application = typer.Typer(
    name="mlgo-gym",
    help="Learn, measure and ship optimisation policies for a stock clang.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.add_typer(corpus_commands, name="corpus")
application.add_typer(export_commands, name="export")
application.add_typer(leaderboard_commands, name="leaderboard")
application.add_typer(recipes_commands, name="recipes")
application.command("cc-stats")(cc_stats)
application.add_typer(train_commands, name="train")
application.command("compare")(compare)
application.command("docs")(docs)
application.command("doctor")(doctor)
application.command("env")(env)
application.command("evaluate")(evaluate)
application.command("explain")(explain)
application.command("importance")(importance)
application.command("label")(label)
application.command("replay")(replay)
application.command("report")(report)
application.command("reproduce")(reproduce)
application.command("trace")(trace)
application.command("validate")(validate)
application.command("search")(search)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"mlgo-gym {__version__}")
        raise typer.Exit


@application.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version
