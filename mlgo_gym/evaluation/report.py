"""Report of an evaluation: tables and notes, JSON-able data, or one HTML page without scripts and other files."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.evaluation.figures import PURPOSE, figures_of
from mlgo_gym.evaluation.record import Configuration, EpisodeRecord
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import DEFAULT, Change, Summary
from mlgo_gym.evaluation.table import (
    Table,
    between_policies,
    by_group,
    certainty,
    change,
    count,
    describe,
    levels,
    overview,
    percent,
    printable,
    wins_and_losses,
)
from mlgo_gym.extras import templates

_MAX_LISTED = 10

_DIGESTS = re.compile(r"( [0-9a-f]{16,64})+$")
"""Digests in the identity of a policy, after its specification."""


def by_project(result: EvaluationResult) -> Table | None:
    """Return one row per project; None for a single project, and if each module is a project."""
    projects = result.projects
    if len(projects) < 2 or len(projects) == len({episode.module for episode in result.episodes}):
        return None
    return by_group("project", result.configuration.metric, {name: result.summaries(name) for name in projects})


def by_language(result: EvaluationResult) -> Table | None:
    """Return one row per source language; None for a single language."""
    groups = {name: result.summaries(language=name) for name in result.languages}
    return by_group("language", result.configuration.metric, groups) if len(groups) > 1 else None


def short_tables(result: EvaluationResult) -> list[Table]:
    """Return the tables that `evaluate` prints: sums, intervals, and changes by project."""
    return present(*result.tables(), by_project(result))


def all_tables(result: EvaluationResult) -> list[Table]:
    """Return every table."""
    extremes = wins_and_losses(result.configuration.metric, result.summaries())
    groups = by_language(result), by_project(result)
    return present(*result.tables(), between_policies(result.pairs), *groups, *extremes)


def present(*tables: Table | None) -> list[Table]:
    """Return the tables that are not None."""
    return [table for table in tables if table is not None]


def notes(result: EvaluationResult) -> list[str]:
    """Return the notes below the tables: arguments, times, exclusions, deviations, failures."""
    summaries = result.summaries()
    lines = []
    if result.configuration.arguments:
        arguments = ", ".join(f"{name}={value!r}" for name, value in sorted(result.configuration.arguments.items()))
        lines.append(f"Arguments: {arguments}")
    if times := [f"{summary.policy} {summary.seconds:,.1f} s" for summary in summaries if summary.seconds]:
        lines.append(f"Compile time (the first policy's includes plain clang's): {', '.join(times)}")
    deciding = [summary for summary in summaries if summary.decisions]
    if times := [f"{one.policy} {1e6 * one.policy_seconds / one.decisions:,.1f} µs" for one in deciding]:
        lines.append(f"CPU time of policies per decision: {', '.join(times)}")
    compared = len(result.compared)
    if missing := result.missing:
        listed = ", ".join(f"{name} {lacking}" for name, lacking in missing.items())
        lines.append(f"Compared on the {count(compared, 'module')} of every policy; without a result: {listed}")
    elif result.only is not None and compared < len(replace(result, only=None).compared):
        lines.append(f"Compared on {count(compared, 'module')}: another evaluation lacks the others")
    if excluded := result.without_decisions:
        lines.append(f"Excluded for lack of decisions: {count(len(excluded), 'module')}: {_some(excluded)}")
    if deviations := result.deviations:
        differing = _some([f"{episode.module} ({_differences(episode, result.metrics)})" for episode in deviations])
        lines.append(f"`{DEFAULT}` differs from plain clang in {count(len(deviations), 'module')}: {differing}")
    elif DEFAULT in result.policies:
        lines.append(f"`{DEFAULT}` equals plain clang on every module.")
    lines += [
        f"{summary.policy}: {count(summary.illegal_actions, 'illegal action')}, replaced by clang's own choice"
        for summary in summaries
        if summary.illegal_actions
    ]
    if grown := Counter[str]({episode.policy: 0 for episode in result.episodes if episode.grown_frames is not None}):
        for episode in result.episodes:
            grown[episode.policy] += episode.grown_frames or 0
        lines.append(
            f"Larger stack frames than plain clang's: {', '.join(f'{name} {n:,}' for name, n in grown.items())}"
        )
    if failures := result.failures:
        lines.append(f"Failed: {count(len(failures), 'episode')}:")
        for episode in failures[:_MAX_LISTED]:
            message = (episode.error or {}).get("message", "").strip().partition("\n")[0]
            lines.append(f"  {episode.policy} on {episode.module}: {message}")
        if len(failures) > _MAX_LISTED:
            lines.append(f"  and {len(failures) - _MAX_LISTED} more: see the result file")
    return lines


def as_data(result: EvaluationResult) -> dict[str, Any]:
    """Return the content of tables and notes as JSON-able data."""
    metric, summaries = result.configuration.metric, result.summaries()
    return {
        "configuration": result.configuration.to_json(),
        "policies": [
            data | summary.changes[metric].extremes_json()
            for data, summary in zip(_all_data(summaries), summaries, strict=True)
        ],
        "pairs": [
            {"first": first, "second": second, **change.comparison_json()} for first, second, change in result.pairs
        ],
        "languages": {name: _all_data(result.summaries(language=name)) for name in result.languages},
        "projects": {name: _all_data(result.summaries(name)) for name in result.projects},
        "compared": sorted(result.compared),
        "missing": result.missing,
        "without_decisions": result.without_decisions,
        "deviations": list(map(asdict, result.deviations)),
        "failures": list(map(asdict, result.failures)),
    }


def _all_data(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    counts = ("policy", "modules", "failures", "illegal_actions", "seconds", "policy_seconds", "decisions")
    return [
        {name: getattr(summary, name) for name in counts}
        | {"changes": {metric: change.to_json() for metric, change in summary.changes.items()}}
        for summary in summaries
    ]


def _differences(episode: EpisodeRecord, metrics: Iterable[str]) -> str:
    differences = {name: episode.metrics[name][0] - episode.metrics[name][1] for name in metrics}
    return ", ".join(f"{name} {difference:+g}" for name, difference in differences.items() if difference)


def _some(items: Sequence[str]) -> str:
    more = len(items) - _MAX_LISTED
    return ", ".join(items[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def page(evaluations: Mapping[str, EvaluationResult]) -> str:
    """Return the page of evaluations by name; characters that cannot be printed are escaped."""
    template = templates(Path(__file__).with_name("templates"), PURPOSE, "report").get_template("report.html")
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
    return "\n".join(map(printable, text.split("\n")))


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
        "figures": figures_of(result, part_id),
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
    total = modules.total
    parts = {"less": modules.better, "same": modules.equal, "more": modules.worse}
    return {
        "policy": policy,
        "total": percent(total) if total else "no change",
        "kind": "good" if total < 0 else "bad" if total > 0 else "",
        "statistics": f"{metric} in total; geometric mean {change(modules.estimate)} %",
        "counts": f"{modules.better} smaller, {modules.equal} equal, {modules.worse} larger",
        **{name: round(100 * part / len(modules.pairs), 2) for name, part in parts.items()},
    }


def command_of(configuration: Configuration, output: str = "RESULTS") -> str:
    """Return the command that reproduces results; policies have the file paths of the machine that evaluated."""
    specs = {name: _DIGESTS.sub("", identity) for name, identity in configuration.policies.items()}
    options = [
        ("--corpus", configuration.corpus),
        ("--split", configuration.split),
        ("--limit", configuration.limit),
        *(("--policy", spec) for spec in specs.values()),
        ("--seed", configuration.seed),
        *(("--set", f"{name}={json.dumps(value)}") for name, value in sorted(configuration.arguments.items())),
        ("--output", output),
    ]
    words = [str(word) for option, value in options if value is not None for word in (option, value)]
    return shlex.join(["mlgo-gym", "evaluate", configuration.environment, *words])
