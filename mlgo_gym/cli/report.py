"""`mlgo-gym report` and `mlgo-gym compare`: reports on evaluations and searches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import echo, show
from mlgo_gym.cli.tables import print_tables
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.comparison import compare as compare_runs
from mlgo_gym.evaluation.inputs import read_inputs, run_names
from mlgo_gym.evaluation.page import page
from mlgo_gym.evaluation.report import all_tables, as_data, notes
from mlgo_gym.evaluation.result import with_smallest
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.evaluation.table import all_as_markdown
from mlgo_gym.storage.cache import write_atomically


def report(
    runs: Annotated[list[Path], argument("Outputs of `evaluate` and `search`.")],
    *,
    html: Annotated[Path | None, option("File for an HTML page with tables and figures.")] = None,
    figures: Annotated[Path | None, option("Folder for the figures as PNG and SVG.")] = None,
    form: Annotated[Literal["text", "markdown"], option("Format of the tables.", "--format")] = "text",
    as_json: bool = False,
    smallest: bool = False,
) -> None:
    """Print the tables of evaluations, with intervals, wins and losses.

    --html writes one page without scripts and references: tables, figures,
    curves of searches, and the commands that reproduce results. The page and
    the figures need the extra `report`. Evaluations may be unfinished.
    With --json, several evaluations are one object by their names.
    """
    inputs = read_inputs(runs)
    if smallest:
        combined = {name: with_smallest(result) for name, result in inputs.evaluations.items()}
        inputs = replace(inputs, evaluations=combined)
    evaluations = inputs.evaluations
    if not evaluations and html is None and figures is None:
        raise MlgoError("expected --html or --figures for searches, got neither; name a file or a folder")
    data = {name: as_data(result) for name, result in evaluations.items()}
    if as_json:
        show(True, next(iter(data.values())) if len(data) == 1 else data, "")
    for number, (name, result) in enumerate({} if as_json else evaluations.items()):
        tables = all_tables(result, narrow=form == "text")
        if form != "text":
            echo(all_as_markdown(tables, notes(result)))
            continue
        if len(evaluations) > 1:
            echo(f"{chr(10) * bool(number)}== {name} ==\n")
        print_tables(tables, notes(result))
    if html is None and figures is None:
        return
    from mlgo_gym.evaluation.figures import figures_of, search_figure, write_figures

    drawn = {name: figures_of(result) for name, result in evaluations.items()}
    searches = search_figure(inputs.searches)
    if figures is not None:
        for name, pictures in drawn.items():
            write_figures(pictures, figures / name.replace("/", "-") if len(drawn) > 1 else figures)
        write_figures(searches, figures)
        echo(f"wrote {figures}", err=True)
    if html is not None:
        write_atomically(html, page(inputs, drawn, searches).encode())
        echo(f"wrote {html}", err=True)


def compare(
    runs: Annotated[list[Path], argument("Outputs of `evaluate`; the first is the reference.")],
    *,
    as_json: bool = False,
) -> None:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared module by module, with 95 % intervals over projects and modules. If two
    evaluations share no policy, each is compared with each. Evaluations with other modules, flags or compilers are
    refused; the message has the first difference.
    """
    comparison = compare_runs({name: load_result(path) for name, path in run_names(runs).items()})
    if as_json:
        show(True, comparison.to_json(), "")
    else:
        print_tables(comparison.tables(), comparison.notes)
