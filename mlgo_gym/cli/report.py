"""`mlgo-gym report`: what evaluations, trainings and searches have shown, from what they have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.output import JsonOption, print_json, say
from mlgo_gym.cli.smallest import SmallestOption, and_smallest
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.evaluation.result import EvaluationResult
    from mlgo_gym.reporting.inputs import Inputs


class Format(str, Enum):
    """How tables are written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"


def report(
    runs: Annotated[list[Path], typer.Argument(help="The --output of evaluations, trainings and searches.")],
    *,
    html: Annotated[Path | None, typer.Option(help="Write one page with tables and figures to this file.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write each figure to this folder, as PNG and SVG.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How the tables are written.")] = Format.TEXT,
    as_json: JsonOption = False,
    svg: Annotated[Path | None, typer.Option(help="Write the short tables to this file as a picture.")] = None,
    smallest: SmallestOption = False,
) -> None:
    """Print the tables of evaluations, with their intervals, wins and losses.

    With --html also one page that loads nothing and runs nothing: tables,
    figures, learning and search curves, and how to come to all of it again. The
    page and the figures need the extra `report`. An evaluation need not be
    finished. With --json, several evaluations are one object by their names.
    """
    from mlgo_gym.reporting.inputs import read_inputs

    inputs = read_inputs(runs)
    evaluations = {name: and_smallest(result, wanted=smallest) for name, result in inputs.evaluations.items()}
    inputs = replace(inputs, evaluations=evaluations)
    if not inputs.evaluations and html is None and figures is None:
        raise MlgoError("there are only curves, and curves are drawn: give --html FILE or --figures FOLDER")
    if as_json:
        _print_json(inputs.evaluations)
    for number, (name, result) in enumerate(inputs.evaluations.items()):
        if not as_json:
            if form is Format.TEXT and len(inputs.evaluations) > 1:
                say(f"{chr(10) * bool(number)}== {name} ==\n")
            _print(result, form)
        if svg is not None:
            _draw(result, svg, name, number)
    if html is not None or figures is not None:
        _write(inputs, html, figures)


def _print_json(evaluations: Mapping[str, EvaluationResult]) -> None:
    from mlgo_gym.evaluation.report import as_data

    found = {name: as_data(result) for name, result in evaluations.items()}
    print_json(next(iter(found.values())) if len(found) == 1 else found)


def _print(result: EvaluationResult, form: Format) -> None:
    from mlgo_gym.cli.tables import print_result
    from mlgo_gym.evaluation.report import all_tables, notes
    from mlgo_gym.reporting.paper import as_latex, as_markdown

    if form is Format.TEXT:
        print_result(result, everything=True)
    elif form is Format.MARKDOWN:
        say(as_markdown(all_tables(result, narrow=False), notes(result)))
    else:
        say(as_latex(all_tables(result, narrow=False)))


def _draw(result: EvaluationResult, svg: Path, name: str, number: int) -> None:
    from mlgo_gym.cli.tables import draw_result

    path = svg if not number else svg.with_stem(f"{svg.stem}-{number + 1}")
    draw_result(result, path, title=f"mlgo-gym report {name}")


def _write(inputs: Inputs, html: Path | None, folder: Path | None) -> None:
    from mlgo_gym.reporting.page import Drawn, page
    from mlgo_gym.reporting.pictures import write_figures
    from mlgo_gym.reporting.plots import curve_figures, figures_of
    from mlgo_gym.storage.cache import write_atomically

    drawn = Drawn(
        {name: figures_of(result) for name, result in inputs.evaluations.items()}, curve_figures(inputs.curves)
    )
    if folder is not None:
        several = len(inputs.evaluations) > 1
        for name, each in drawn.evaluations.items():
            write_figures(each, folder / name.replace("/", "-") if several else folder)
        write_figures(drawn.curves, folder)
        say(f"wrote {folder}", err=True)
    if html is not None:
        write_atomically(html, page(inputs, drawn).encode())
        say(f"wrote {html}", err=True)
