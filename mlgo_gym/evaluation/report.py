"""An evaluation for a person to read: tables of plain texts, and what has to be said beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.intervals import Interval, intervals_available, mean_interval, total_interval
from mlgo_gym.evaluation.summary import TEXT, Change, Summary

if TYPE_CHECKING:
    from mlgo_gym.evaluation.result import EvaluationResult

_MOST_LISTED = 10
_UNITS = {"text_size": "text bytes", "llvm_size": "llvm-size bytes", "object_size": "object bytes"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts.

    Attributes:
        title: what it shows.
        columns: the headings; the first column is text, the others are numbers.
        rows: the cells.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self) -> str:
        """Return the table with aligned columns."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.columns))]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        ]
        return "\n".join([self.title, "", aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])


def overview(result: EvaluationResult) -> Table:
    """Return a row for each policy: what its episodes add up to against plain clang."""
    summaries = result.summaries()
    metric = result.configuration.metric
    columns: list[tuple[str, Callable[[Summary], str]]] = [
        ("policy", lambda row: row.policy),
        ("modules", lambda row: str(row.modules)),
    ]
    columns += _columns_of(metric)
    if metric != TEXT:
        columns += [
            ("text bytes", lambda row: _number(row.changes[TEXT].value)),
            ("total", lambda row: _percent(row.changes[TEXT].total)),
        ]
    columns += [
        ("better", lambda row: str(row.changes[metric].better)),
        ("worse", lambda row: str(row.changes[metric].worse)),
        ("equal", lambda row: str(row.changes[metric].equal)),
        ("failed", lambda row: str(row.failures)),
        ("seconds", lambda row: f"{row.seconds:.1f}"),
    ]
    title = describe(result)
    rows = tuple(tuple(cell(row) for _, cell in columns) for row in summaries)
    return Table(title, tuple(name for name, _ in columns), rows)


def _columns_of(measure: str) -> list[tuple[str, Callable[[Summary], str]]]:
    def change(row: Summary) -> Change:
        return row.changes[measure]

    columns: list[tuple[str, Callable[[Summary], str]]] = [
        (_UNITS.get(measure, measure.replace("_", " ")), lambda row: _number(change(row).value)),
        ("plain clang", lambda row: _number(change(row).baseline)),
        ("total", lambda row: _percent(change(row).total)),
        ("geo-mean", lambda row: _percent(change(row).mean)),
    ]
    if intervals_available():
        columns.append(("95 % interval", lambda row: _interval(mean_interval(change(row)))))
    return columns


def by_project(result: EvaluationResult) -> Table | None:
    """Return a row for each project: the geometric-mean change of each policy.

    None for a single project, and where each module is a project of its own.
    """
    projects = result.projects
    if len(projects) < 2 or len(projects) == len({episode.module for episode in result.episodes}):
        return None
    metric = result.configuration.metric
    rows = []
    for project in projects:
        summaries = result.summaries(project)
        modules = max(summary.modules for summary in summaries)
        if modules:
            changes = [summary.changes[metric] for summary in summaries]
            rows.append((project, str(modules), *map(_mean_with_interval, changes)))
    title = f"Geometric-mean change of {metric} by project"
    return Table(title, ("project", "modules", *result.policies), tuple(rows))


def _mean_with_interval(change: Change) -> str:
    if not change.pairs:
        return "-"
    interval = mean_interval(change) if intervals_available() else None
    return _percent(change.mean) + (f" {_interval(interval)}" if interval and any(interval) else "")


def describe(result: EvaluationResult) -> str:
    """Return in one line what was evaluated: environment, corpora, the levels they really have, compiler."""
    configuration = result.configuration
    several = len(configuration.levels) > 1
    levels = "; ".join(
        f"{corpus}: {_by_level(counts)}" if several else _by_level(counts)
        for corpus, counts in sorted(configuration.levels.items())
    )
    modules = f"{_count(configuration.modules, 'module')} ({levels})"
    part = f" ({configuration.split})" if configuration.split else ""
    return f"{configuration.environment} on {configuration.corpus}{part}: {modules}, clang {configuration.clang}"


def _by_level(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {'with' if ' ' in level else 'at'} {level}" for level, count in sorted(counts.items()))


def notes(result: EvaluationResult) -> list[str]:
    """Return what has to be said beside the tables: what was left out, what failed, what differs."""
    lines = []
    if result.configuration.arguments:
        given = ", ".join(f"{name}={value!r}" for name, value in sorted(result.configuration.arguments.items()))
        lines.append(f"Arguments: {given}")
    if without := result.without_decisions:
        lines.append(f"Without a decision, and in no sum: {_count(len(without), 'module')}: {_some(without)}")
    if any(episode.policy == "default" for episode in result.episodes):
        deviations = result.deviations
        lines.append(
            "Every module of `default` ended exactly as with plain clang."
            if not deviations
            else f"`default` differs from plain clang in {_count(len(deviations), 'module')}: "
            + _some([f"{each.module} ({_differences(each, result.measures)})" for each in deviations])
        )
    lines += [
        f"{summary.policy}: {_count(summary.illegal_actions, 'illegal action')}, replaced by clang's own choice"
        for summary in result.summaries()
        if summary.illegal_actions
    ]
    if failures := result.failures:
        lines.append(f"Failed: {_count(len(failures), 'episode')}:")
        lines += [
            f"  {each.policy} on {each.module}: {_first_line((each.error or {}).get('message', ''))}"
            for each in failures[:_MOST_LISTED]
        ]
        if len(failures) > _MOST_LISTED:
            lines.append(f"  and {len(failures) - _MOST_LISTED} more: see the result file")
    if not intervals_available():
        lines.append("95 % intervals need the extra 'evaluation': pip install 'mlgo-gym[evaluation]'")
    return lines


def as_text(result: EvaluationResult) -> str:
    """Return tables and notes as plain text."""
    tables = [overview(result), by_project(result)]
    return "\n\n".join([*(table.as_text() for table in tables if table is not None), "\n".join(notes(result))])


def as_data(result: EvaluationResult) -> dict[str, Any]:
    """Return what the tables and notes say, as JSON-able data; intervals only where scipy is installed."""
    return {
        "configuration": result.configuration.to_json(),
        "policies": [_summary_data(summary) for summary in result.summaries()],
        "projects": {
            project: [_summary_data(summary) for summary in result.summaries(project)] for project in result.projects
        },
        "without_decisions": result.without_decisions,
        "deviations": [episode.to_json() for episode in result.deviations],
        "failures": [episode.to_json() for episode in result.failures],
    }


def _summary_data(summary: Summary) -> dict[str, Any]:
    return {
        "policy": summary.policy,
        "modules": summary.modules,
        "failures": summary.failures,
        "illegal_actions": summary.illegal_actions,
        "seconds": summary.seconds,
        "changes": {name: _change_data(change) for name, change in summary.changes.items()},
    }


def _change_data(change: Change) -> dict[str, Any]:
    data: dict[str, Any] = {
        name: getattr(change, name) for name in ("value", "baseline", "total", "mean", "better", "worse", "equal")
    }
    if intervals_available():
        data |= {"total_interval": total_interval(change), "mean_interval": mean_interval(change)}
    return data


def _differences(episode: EpisodeResult, measures: Iterable[str]) -> str:
    differences = {name: episode.measures[name][0] - episode.measures[name][1] for name in measures}
    return ", ".join(f"{name} {difference:+g}" for name, difference in differences.items() if difference)


def _some(items: Sequence[str]) -> str:
    more = len(items) - _MOST_LISTED
    return ", ".join(items[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:+.2f} %" if value else "0"


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    low, high = interval
    if not low and not high:
        return "0"
    return f"[{100 * low:+.2f}, {100 * high:+.2f}]"
