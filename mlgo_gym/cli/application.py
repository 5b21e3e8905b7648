"""The commands of `mlgo-gym` by name."""

import inspect
from typing import Annotated

import typer

from mlgo_gym import __version__
from mlgo_gym.cli import build, corpus, doctor, evaluate, export, recipes, reference, size, trace, train
from mlgo_gym.cli.interface import echo

application = typer.Typer(
    name="mlgo-gym",
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
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    del version


for _command in (
    build.build,
    recipes.cc_stats,
    evaluate.compare,
    doctor.doctor,
    reference.env,
    evaluate.evaluate,
    evaluate.explain,
    train.label,
    recipes.link_facts,
    evaluate.report,
    recipes.search,
    size.size,
    trace.trace,
    trace.validate,
):
    application.command()(_command)
for _group in (application, corpus.group, export.group, recipes.group, train.group):
    for _registered in _group.registered_commands:
        # Click cuts a summary off at the end of its line.
        _registered.short_help = inspect.cleandoc(str(_registered.callback.__doc__)).partition("\n\n")[0]
    if _group is not application:
        application.add_typer(_group, short_help=_group.info.help)
