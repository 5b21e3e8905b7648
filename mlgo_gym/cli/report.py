"""`mlgo-gym report` and `mlgo-gym compare`: reports on evaluations and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mlgo_gym.cli.evaluate import SmallestOption
from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import JsonOption, SafeConsole, echo, print_json
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.evaluation.inputs import Inputs
    from mlgo_gym.evaluation.table import Table


FormatOption = Annotated[Literal["text", "markdown"], option("Format of the tables.", "--format")]


def report(
    runs: Annotated[list[Path], argument("Outputs of `evaluate` and `search`.")],
    *,
    html: Annotated[Path | None, option("File for an HTML page with tables and figures.")] = None,
    figures: Annotated[Path | None, option("Folder for the figures as PNG and SVG.")] = None,
    form: FormatOption = "text",
    as_json: JsonOption = False,
    smallest: SmallestOption = False,
) -> None:
    """Print the tables of evaluations, with intervals, wins and losses.

    --html writes one page without scripts and references: tables, figures,
    curves of searches, and the commands that reproduce results. The page and
    the figures need the extra `report`. Evaluations may be unfinished.
    With --json, several evaluations are one object by their names.
    """
    from mlgo_gym.evaluation.inputs import read_inputs
    from mlgo_gym.evaluation.report import all_tables, as_data, notes
    from mlgo_gym.evaluation.result import with_smallest

    inputs = read_inputs(runs)
    if smallest:
        combined = {name: with_smallest(result) for name, result in inputs.evaluations.items()}
        inputs = replace(inputs, evaluations=combined)
    evaluations = inputs.evaluations
    if not evaluations and html is None and figures is None:
        raise MlgoError("expected --html or --figures for searches, got neither; name a file or a folder")
    if as_json:
        data = {name: as_data(result) for name, result in evaluations.items()}
        print_json(next(iter(data.values())) if len(data) == 1 else data)
    for number, (name, result) in enumerate(evaluations.items()):
        if not as_json:
            if form == "text" and len(evaluations) > 1:
                echo(f"{chr(10) * bool(number)}== {name} ==\n")
            print_tables(all_tables(result, narrow=form == "text"), notes(result), form)
    if html is not None or figures is not None:
        _write(inputs, html, figures)


def print_tables(tables: Sequence[Table], notes: Sequence[str], form: str = "text") -> None:
    """Print tables and the notes below them."""
    from mlgo_gym.cli.tables import print_text
    from mlgo_gym.evaluation.table import all_as_markdown

    if form == "text":
        print_text(SafeConsole(highlight=False, markup=False), tables, notes)
    else:
        echo(all_as_markdown(tables, notes))


def _write(inputs: Inputs, html: Path | None, folder: Path | None) -> None:
    from mlgo_gym.evaluation.figures import figures_of, search_figure, write_figures
    from mlgo_gym.evaluation.page import page
    from mlgo_gym.storage.cache import write_atomically

    figures = {name: figures_of(result) for name, result in inputs.evaluations.items()}
    searches = search_figure(inputs.searches)
    if folder is not None:
        for name, drawn in figures.items():
            write_figures(drawn, folder / name.replace("/", "-") if len(figures) > 1 else folder)
        write_figures(searches, folder)
        echo(f"wrote {folder}", err=True)
    if html is not None:
        write_atomically(html, page(inputs, figures, searches).encode())
        echo(f"wrote {html}", err=True)


def compare(
    runs: Annotated[list[Path], argument("Outputs of `evaluate`; the first is the reference.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared module by module, with 95 % intervals over projects and modules. If two
    evaluations share no policy, each is compared with each. Evaluations with other modules, flags or compilers are
    refused; the message has the first difference.
    """
    from mlgo_gym.evaluation.comparison import compare as compare_runs
    from mlgo_gym.evaluation.inputs import run_names
    from mlgo_gym.evaluation.result_folder import load_result

    comparison = compare_runs({name: load_result(path) for name, path in run_names(runs).items()})
    if as_json:
        print_json(comparison.to_json())
    else:
        print_tables(comparison.tables(), comparison.notes)
