"""A report as one HTML page without scripts and without references to other files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.figures import Figure, figures_of, inline_svg
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


def page(evaluations: Mapping[str, EvaluationResult]) -> str:
    """Return the page of evaluations by name."""
    jinja2 = library("jinja2", _PURPOSE, "report")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(Path(__file__).with_name("templates").joinpath("report.html").read_text(encoding="utf-8"))
    parts = [_part(f"run-{number}", name, result) for number, (name, result) in enumerate(evaluations.items(), start=1)]
    policies = list(dict.fromkeys(name for result in evaluations.values() for name in result.policies))
    number_of_policies = "1 policy" if len(policies) == 1 else f"{len(policies)} policies"
    text: str = template.render(
        version=mlgo_gym.__version__,
        title=f"mlgo-gym report: {', '.join(evaluations)}",
        subtitle=f"{number_of_policies} against plain clang: {', '.join(policies)}" if policies else "",
        contents=[*((part["id"], part["title"]) for part in parts), ("method", "How to read this")],
        parts=parts,
    )
    return text


def _pictures(figures: Sequence[Figure], prefix: str) -> list[dict[str, Any]]:
    markup = library("markupsafe", _PURPOSE, "report").Markup
    named = [(f"{prefix}-{figure.name}", figure) for figure in figures]
    return [
        {"id": name, "svg": markup(inline_svg(figure, name)), "title": figure.title, "text": figure.text}
        for name, figure in named
    ]


def _part(part_id: str, name: str, result: EvaluationResult) -> dict[str, Any]:
    configuration, summaries = result.configuration, result.summaries()
    metric = configuration.metric
    sums = replace(overview(configuration, summaries), title="Sums over all modules, and modules by outcome")
    return {
        "id": part_id,
        "title": name,
        "described": describe(configuration),
        "cards": [_card(summary.policy, summary.changes[metric], metric) for summary in summaries if summary.modules],
        "tables": present(sums, certainty(metric, summaries), between_policies(result.pairs)),
        "figures": _pictures(figures_of(result), part_id),
        "extremes": wins_and_losses(metric, summaries),
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
