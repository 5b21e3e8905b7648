"""A report as one HTML page without scripts and without references to other files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.comparison import compare
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.figures import Figure, inline_svg
from mlgo_gym.evaluation.inputs import Inputs
from mlgo_gym.evaluation.report import by_language, by_project, notes, present
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import Change, estimates
from mlgo_gym.evaluation.table import (
    between_policies,
    certainty,
    change,
    count,
    describe,
    levels,
    overview,
    percent,
    wins_and_losses,
)
from mlgo_gym.extras import library

_PURPOSE = "a report as a page"


def page(inputs: Inputs, figures: Mapping[str, Sequence[Figure]], searches: Sequence[Figure]) -> str:
    """Return the page with the figures of evaluations by name, and those of searches."""
    jinja2 = library("jinja2", _PURPOSE, "report")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(Path(__file__).with_name("templates").joinpath("report.html").read_text(encoding="utf-8"))
    parts = [
        _part(f"run-{number}", name, result, figures[name])
        for number, (name, result) in enumerate(inputs.evaluations.items(), start=1)
    ]
    comparisons = _comparisons(inputs)
    contents = [(part["id"], part["title"]) for part in (*parts, *comparisons)]
    contents += [("searches", "Searches")] if searches else []
    policies = list(dict.fromkeys(name for result in inputs.evaluations.values() for name in result.policies))
    number_of_policies = "1 policy" if len(policies) == 1 else f"{len(policies)} policies"
    text: str = template.render(
        version=mlgo_gym.__version__,
        title=f"mlgo-gym report: {', '.join(inputs.evaluations) or 'searches'}",
        subtitle=f"{number_of_policies} against plain clang: {', '.join(policies)}" if policies else "",
        contents=[*contents, ("method", "How to read this")],
        parts=parts,
        comparisons=comparisons,
        searches=_pictures(searches, "searches"),
    )
    return text


def _pictures(figures: Sequence[Figure], prefix: str) -> list[dict[str, Any]]:
    markup = library("markupsafe", _PURPOSE, "report").Markup
    named = [(f"{prefix}-{figure.name}", figure) for figure in figures]
    return [
        {"id": name, "svg": markup(inline_svg(figure, name)), "title": figure.title, "text": figure.text}
        for name, figure in named
    ]


def _part(part_id: str, name: str, result: EvaluationResult, figures: Sequence[Figure]) -> dict[str, Any]:
    configuration, summaries = result.configuration, result.summaries()
    metric = configuration.metric
    sums = replace(overview(configuration, summaries), title="Sums over all modules, and modules by outcome")
    return {
        "id": part_id,
        "title": name,
        "described": describe(configuration),
        "cards": [_card(summary.policy, summary.changes[metric], metric) for summary in summaries if summary.modules],
        "tables": present(sums, certainty(metric, summaries), between_policies(result.pairs)),
        "figures": _pictures(figures, part_id),
        "extremes": wins_and_losses(metric, summaries, narrow=False),
        "groups": present(by_language(result), by_project(result)),
        "notes": notes(result),
        "command": command_of(configuration),
        "facts": [
            ("compiler", f"clang {configuration.clang}"),
            ("mlgo-gym", configuration.mlgo_gym),
            ("metric", metric),
            ("modules", f"{count(configuration.modules, 'module')} ({levels(configuration)})"),
            ("digest of modules and flags", configuration.modules_digest),
            *((f"policy {policy}", identity) for policy, identity in configuration.policies.items()),
        ],
    }


def _card(policy: str, modules: Change, metric: str) -> dict[str, Any]:
    total, mean, _ = estimates(modules)
    parts = {"less": modules.better, "same": modules.equal, "more": modules.worse}
    return {
        "policy": policy,
        "total": percent(total.value) if total.value else "no change",
        "kind": "good" if total.value < 0 else "bad" if total.value > 0 else "",
        "statistics": f"{metric} in total; geometric mean {change(mean)} %",
        "counts": f"{modules.better} smaller, {modules.equal} equal, {modules.worse} larger",
        **{name: round(100 * part / len(modules.pairs), 2) for name, part in parts.items()},
    }


def _comparisons(inputs: Inputs) -> list[dict[str, Any]]:
    """Return the comparison of each evaluation with the next, or the reason why they cannot be compared."""
    parts = []
    for number, (before, after) in enumerate(pairwise(inputs.evaluations), start=1):
        runs = {name: inputs.evaluations[name] for name in (before, after)}
        part: dict[str, Any] = {"tables": [], "notes": [], "refused": ""}
        try:
            comparison = compare(runs)
            part |= {"tables": comparison.tables(), "notes": comparison.notes}
        except MlgoError as error:
            part["refused"] = f"{error}."
        parts.append({"id": f"change-{number}", "title": f"From {before} to {after}", **part})
    return parts


def command_of(configuration: Configuration, output: str = "RESULTS") -> str:
    """Return the command that reproduces results; policies have the file paths of the machine that evaluated."""
    options = [
        ("--corpus", configuration.corpus),
        ("--split", configuration.split),
        ("--limit", configuration.limit),
        *(("--policy", name) for name in configuration.policies),
        ("--seed", configuration.seed),
        *(("--set", f"{name}={json.dumps(value)}") for name, value in sorted(configuration.arguments.items())),
        ("--output", output),
    ]
    words = [str(word) for option, value in options if value is not None for word in (option, value)]
    return shlex.join(["mlgo-gym", "evaluate", configuration.environment, *words])
