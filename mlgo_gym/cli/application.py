"""Every command of `mlgo-gym` in one place."""

from __future__ import annotations

import typer

from mlgo_gym.cli.corpus import corpus_commands

application = typer.Typer(
    name="mlgo-gym",
    help="Learn, measure and ship optimisation policies for a stock clang.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
application.add_typer(corpus_commands, name="corpus")
