"""The tables of an evaluation: what policies come to, how sure that is, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.extremes import Extreme, best, worst
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import TEXT, Summary
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.wording import change, count, number, percent, probability, short, signed, unit

if TYPE_CHECKING:
    from mlgo_gym.evaluation.result import EvaluationResult

DEFAULT = "default"
"""The policy that answers as clang would: what it wins and loses is of no interest by itself."""

_MOST_NAMED = 4
"""So many corpora are named in a title."""


def overview(result: EvaluationResult) -> Table:
    """Return a row for each policy: what its episodes add up to against plain clang."""
    summaries = result.summaries()
    metric = result.configuration.metric
    columns: list[tuple[str, Callable[[Summary], str]]] = [
        ("policy", lambda row: row.policy),
        ("modules", lambda row: str(row.modules)),
        (unit(metric), lambda row: number(row.changes[metric].value)),
        ("clang", lambda row: number(row.changes[metric].baseline)),
        ("total", lambda row: percent(row.changes[metric].total)),
    ]
    if metric != TEXT:
        columns += [
            (unit(TEXT), lambda row: number(row.changes[TEXT].value)),
            ("total", lambda row: percent(row.changes[TEXT].total)),
        ]
    columns += [
        ("better", lambda row: str(row.changes[metric].better)),
        ("equal", lambda row: str(row.changes[metric].equal)),
        ("worse", lambda row: str(row.changes[metric].worse)),
    ]
    if any(row.failures for row in summaries):
        columns.append(("failed", lambda row: str(row.failures)))
    rows = tuple(tuple(cell(row) for _, cell in columns) for row in summaries)
    return Table(describe(result), tuple(name for name, _ in columns), rows)


def certainty(result: EvaluationResult) -> Table:
    """Return a row for each policy: its statistics, each with its interval."""
    metric = result.configuration.metric
    rows = []
    for summary in result.summaries():
        found = estimates(summary.changes[metric])
        rows.append((summary.policy, *map(change, (found.total, found.mean, found.interquartile))))
    return Table(
        f"Change of {metric} in %, with 95 % intervals over projects and modules",
        ("policy", "total", "geo-mean", "middle half"),
        tuple(rows),
    )


def by_project(result: EvaluationResult) -> Table | None:
    """Return a row for each project: the geometric-mean change of each policy.

    None for a single project, and where each module is a project of its own.
    """
    projects = result.projects
    if len(projects) == len({episode.module for episode in result.episodes}):
        return None
    return _by(result, "project", [(name, result.summaries(name)) for name in projects])


def by_language(result: EvaluationResult) -> Table | None:
    """Return a row for each language: the geometric-mean change of each policy. None for a single one."""
    return _by(result, "language", [(name, result.summaries(language=name)) for name in result.languages])


def _by(result: EvaluationResult, what: str, groups: Sequence[tuple[str, list[Summary]]]) -> Table | None:
    if len(groups) < 2:
        return None
    metric = result.configuration.metric
    rows = []
    for name, summaries in groups:
        modules = max((summary.modules for summary in summaries), default=0)
        if modules:
            cells = [
                change(estimates(summary.changes[metric]).mean) if summary.modules else "-" for summary in summaries
            ]
            rows.append((name, str(modules), *cells))
    title = f"Geometric-mean change of {metric} in %, by {what}"
    return Table(title, (what, "modules", *result.policies), tuple(rows))


def between_policies(result: EvaluationResult) -> Table | None:
    """Return a row for each two policies: how often one beats the other. None where there is only one."""
    rows = []
    for first, second in combinations(reversed(result.policies), 2):
        pair = result.pair(first, second)
        if pair.modules:
            counts = f"{pair.change.better}/{pair.change.equal}/{pair.change.worse}"
            rows.append((f"{first} / {second}", probability(pair.probability), change(pair.estimates.mean), counts))
    if not rows:
        return None
    title = "The first against the second: how likely a module is smaller (a tie counts half); smaller/equal/larger"
    return Table(title, ("policies", "smaller", "geo-mean %", "modules"), tuple(rows))


def wins_and_losses(result: EvaluationResult, *, narrow: bool = True) -> list[Table]:
    """Return two tables for each policy but `default`: the modules that it makes smaller most, and larger most.

    Args:
        result: the evaluation.
        narrow: whether long names are shortened, so that a table fits a page of text.
    """
    metric = result.configuration.metric
    tables = []
    for summary in result.summaries():
        if summary.policy != DEFAULT or len(result.policies) == 1:
            rows = summary.changes[metric]
            for what, found in (("wins", best(summary.names, rows)), ("loses", worst(summary.names, rows))):
                if found:
                    tables.append(extremes_table(f"Where {summary.policy} {what} most", found, metric, narrow=narrow))
    return tables


def extremes_table(
    title: str, rows: Sequence[Extreme], metric: str, baseline: str = "clang", *, narrow: bool = True
) -> Table:
    """Return a row for each module: what it was, by how many bytes it changed, and by what part."""
    cells = tuple(
        (
            short(row.module) if narrow else row.module,
            number(row.baseline),
            signed(row.value - row.baseline),
            percent(row.change),
        )
        for row in rows
    )
    return Table(title, ("module", baseline, unit(metric), "change"), cells)


def describe(result: EvaluationResult) -> str:
    """Return what was evaluated: environment, corpora, the levels they really have, compiler."""
    configuration = result.configuration
    names = configuration.corpus.split(",")
    corpora = configuration.corpus if len(names) <= _MOST_NAMED else f"{names[0]} and {len(names) - 1} more"
    part = f" ({configuration.split})" if configuration.split else ""
    modules = f"{count(configuration.modules, 'module')} ({levels(configuration)})"
    return f"{configuration.environment} on {corpora}{part}: {modules}, clang {configuration.clang}"


def levels(configuration: Configuration) -> str:
    """Return at which optimisation levels the modules are, for each corpus where they differ."""
    distinct = {tuple(sorted(set(counts) - {"no functions"})) for counts in configuration.levels.values()} - {()}
    if len(distinct) > 1:
        return "; ".join(f"{corpus}: {_by_level(counts)}" for corpus, counts in sorted(configuration.levels.items()))
    together: dict[str, int] = {}
    for counts in configuration.levels.values():
        for level, modules in counts.items():
            together[level] = together.get(level, 0) + modules
    return _by_level(together)


def _by_level(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{each} {'with' if ' ' in level else 'at'} {level}" for level, each in sorted(counts.items()))
