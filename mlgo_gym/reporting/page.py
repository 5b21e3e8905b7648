"""A report as one page of HTML that loads nothing and runs nothing."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import mlgo_gym
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.report import notes
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.summary import Summary
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.tables import (
    between_policies,
    by_language,
    by_project,
    certainty,
    describe,
    overview,
    wins_and_losses,
)
from mlgo_gym.evaluation.wording import change, count, percent
from mlgo_gym.extras import library
from mlgo_gym.reporting.comparison import compare
from mlgo_gym.reporting.inputs import Inputs
from mlgo_gym.reporting.pictures import inline_svg
from mlgo_gym.reporting.plots import Figure
from mlgo_gym.reporting.reproduction import command_of, facts_of

_PAGE = "a report as a page"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The figures of a report.

    Attributes:
        evaluations: those of each evaluation, by what it is called.
        curves: those of trainings and searches.
    """

    evaluations: dict[str, list[Figure]]
    curves: list[Figure]


def page(inputs: Inputs, drawn: Drawn) -> str:
    """Return the page.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    template = _environment().from_string(
        importlib.resources.files("mlgo_gym.reporting").joinpath("templates/report.html").read_text(encoding="utf-8")
    )
    parts = [
        _part(f"run-{number}", name, result, drawn.evaluations[name])
        for number, (name, result) in enumerate(inputs.evaluations.items(), start=1)
    ]
    comparisons = _comparisons(inputs)
    contents = [(part["id"], part["title"]) for part in (*parts, *comparisons)]
    contents += [("curves", "Learning and search")] if drawn.curves else []
    policies = list(dict.fromkeys(name for result in inputs.evaluations.values() for name in result.policies))
    text: str = template.render(
        version=mlgo_gym.__version__,
        title=f"mlgo-gym report: {', '.join(inputs.evaluations) or 'learning and search'}",
        subtitle=f"{count(len(policies), 'policy').replace('policys', 'policies')} against plain clang: "
        f"{', '.join(policies)}"
        if policies
        else "",
        contents=[*contents, ("method", "How to read this")],
        parts=parts,
        comparisons=comparisons,
        curves=_pictures(drawn.curves, "curves"),
    )
    return text


def _environment() -> Any:
    jinja2 = library("jinja2", _PAGE, "report")
    return jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)


def _pictures(figures: Sequence[Figure], prefix: str) -> list[dict[str, Any]]:
    markup = library("markupsafe", _PAGE, "report").Markup
    return [
        {
            "id": f"{prefix}-{each.name}",
            "svg": markup(inline_svg(each, f"{prefix}-{each.name}")),
            "title": each.title,
            "text": each.text,
        }
        for each in figures
    ]


def _part(place: str, name: str, result: EvaluationResult, figures: Sequence[Figure]) -> dict[str, Any]:
    sums = replace(overview(result), title="Sums over all modules, and how many are better than plain clang's")
    first = (sums, certainty(result), between_policies(result))
    groups = (by_language(result), by_project(result))
    return {
        "id": place,
        "title": name,
        "described": describe(result),
        "cards": [_card(each, result.configuration.metric) for each in result.summaries() if each.modules],
        "tables": _there(first),
        "figures": _pictures(figures, place),
        "extremes": wins_and_losses(result, narrow=False),
        "groups": _there(groups),
        "notes": notes(result),
        "command": command_of(result.configuration),
        "facts": facts_of(result.configuration),
    }


def _there(tables: Sequence[Table | None]) -> list[Table]:
    return [table for table in tables if table is not None]


def _card(summary: Summary, metric: str) -> dict[str, Any]:
    rows = summary.changes[metric]
    found = estimates(rows)
    parts = (rows.better, rows.equal, rows.worse)
    return {
        "policy": summary.policy,
        "total": percent(found.total.value) if found.total.value else "no change",
        "kind": "good" if found.total.value < 0 else "bad" if found.total.value > 0 else "",
        "sure": f"{metric} in total; in geometric mean {change(found.mean)} %",
        "counts": f"{rows.better} smaller, {rows.equal} equal, {rows.worse} larger",
        **{name: round(100 * part / sum(parts), 2) for name, part in zip(("less", "same", "more"), parts, strict=True)},
    }


def _comparisons(inputs: Inputs) -> list[dict[str, Any]]:
    """Return what changed from each evaluation to the next, or why that cannot be said."""
    found = []
    for number, (before, after) in enumerate(pairwise(inputs.evaluations), start=1):
        runs = {name: inputs.evaluations[name] for name in (before, after)}
        part: dict[str, Any] = {"id": f"change-{number}", "title": f"From {before} to {after}", "refused": ""}
        try:
            comparison = compare(runs)
            part |= {"tables": comparison.tables(), "notes": comparison.notes}
        except MlgoError as error:
            part |= {"tables": [], "notes": [], "refused": f"{error}."}
        found.append(part)
    return found
