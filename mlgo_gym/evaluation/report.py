"""An evaluation for a person to read: tables of plain texts, and what has to be said beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.extremes import best, worst
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import Change, Summary
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.tables import (
    between_policies,
    by_language,
    by_project,
    certainty,
    overview,
    wins_and_losses,
)
from mlgo_gym.evaluation.wording import count

if TYPE_CHECKING:
    from mlgo_gym.evaluation.result import EvaluationResult

_MOST_LISTED = 10


def short_tables(result: EvaluationResult) -> list[Table]:
    """Return what is shown when an evaluation is over: a row for each policy, twice, and one for each project."""
    tables = (overview(result), certainty(result), by_project(result))
    return [table for table in tables if table is not None]


def all_tables(result: EvaluationResult, *, narrow: bool = True) -> list[Table]:
    """Return every table: also languages, policies against each other, and the modules with the largest changes.

    Args:
        result: the evaluation.
        narrow: whether long names are shortened, so that a table fits a page of text.
    """
    tables = (overview(result), certainty(result), between_policies(result), by_language(result), by_project(result))
    return [*(table for table in tables if table is not None), *wins_and_losses(result, narrow=narrow)]


def notes(result: EvaluationResult) -> list[str]:
    """Return what has to be said beside the tables: what was left out, what failed, what differs."""
    lines = []
    if result.configuration.arguments:
        given = ", ".join(f"{name}={value!r}" for name, value in sorted(result.configuration.arguments.items()))
        lines.append(f"Arguments: {given}")
    if taken := [f"{each.policy} {each.seconds:,.1f} s" for each in result.summaries() if each.seconds]:
        lines.append(f"Compile time (of the first policy with that of plain clang): {', '.join(taken)}")
    if answered := [_pace(each) for each in result.summaries() if each.decisions]:
        lines.append(f"Processor time of policies, for each decision: {', '.join(answered)}")
    if without := result.without_decisions:
        lines.append(f"Without a decision, and in no sum: {count(len(without), 'module')}: {_some(without)}")
    if any(episode.policy == "default" for episode in result.episodes):
        deviations = result.deviations
        lines.append(
            "Every module of `default` ended exactly as with plain clang."
            if not deviations
            else f"`default` differs from plain clang in {count(len(deviations), 'module')}: "
            + _some([f"{each.module} ({_differences(each, result.measures)})" for each in deviations])
        )
    lines += [
        f"{summary.policy}: {count(summary.illegal_actions, 'illegal action')}, replaced by clang's own choice"
        for summary in result.summaries()
        if summary.illegal_actions
    ]
    if failures := result.failures:
        lines.append(f"Failed: {count(len(failures), 'episode')}:")
        lines += [
            f"  {each.policy} on {each.module}: {_first_line((each.error or {}).get('message', ''))}"
            for each in failures[:_MOST_LISTED]
        ]
        if len(failures) > _MOST_LISTED:
            lines.append(f"  and {len(failures) - _MOST_LISTED} more: see the result file")
    return lines


def as_text(result: EvaluationResult) -> str:
    """Return the short tables and the notes as plain text."""
    return "\n\n".join([*(table.as_text() for table in short_tables(result)), "\n".join(notes(result))])


def as_data(result: EvaluationResult) -> dict[str, Any]:
    """Return what tables and notes say, as JSON-able data."""
    metric = result.configuration.metric
    return {
        "configuration": result.configuration.to_json(),
        "policies": [
            {
                **_summary_data(summary),
                "best": [each.to_json() for each in best(summary.names, summary.changes[metric])],
                "worst": [each.to_json() for each in worst(summary.names, summary.changes[metric])],
            }
            for summary in result.summaries()
        ],
        "pairs": [result.pair(*names).to_json() for names in combinations(reversed(result.policies), 2)],
        "languages": {name: _all_data(result.summaries(language=name)) for name in result.languages},
        "projects": {name: _all_data(result.summaries(name)) for name in result.projects},
        "without_decisions": result.without_decisions,
        "deviations": [episode.to_json() for episode in result.deviations],
        "failures": [episode.to_json() for episode in result.failures],
    }


def _all_data(summaries: Iterable[Summary]) -> list[dict[str, Any]]:
    return [_summary_data(summary) for summary in summaries]


def _summary_data(summary: Summary) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "modules": summary.modules,
        "failures": summary.failures,
        "illegal_actions": summary.illegal_actions,
        "seconds": summary.seconds,
        "policy_seconds": summary.policy_seconds,
        "decisions": summary.decisions,
        "changes": {name: _change_data(change) for name, change in summary.changes.items()},
    }


def _change_data(change: Change) -> dict[str, Any]:
    data: dict[str, Any] = {name: getattr(change, name) for name in ("value", "baseline", "better", "worse", "equal")}
    found = estimates(change)
    for name in ("total", "mean", "interquartile"):
        estimate = getattr(found, name)
        data |= {name: estimate.value, f"{name}_interval": estimate.interval}
    return data


def _pace(summary: Summary) -> str:
    return f"{summary.policy} {1e6 * summary.policy_seconds / summary.decisions:,.1f} µs"


def _differences(episode: EpisodeResult, measures: Iterable[str]) -> str:
    differences = {name: episode.measures[name][0] - episode.measures[name][1] for name in measures}
    return ", ".join(f"{name} {difference:+g}" for name, difference in differences.items() if difference)


def _some(items: Sequence[str]) -> str:
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
