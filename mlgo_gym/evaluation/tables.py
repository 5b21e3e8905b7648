"""Tables of an evaluation: sums, intervals, groups, pairs of policies, largest changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.statistics import DEFAULT, TEXT, Change, Extreme, Summary, estimates
from mlgo_gym.evaluation.table import Table, change, count, number, percent, probability, short, signed, with_unit

_MAX_CORPORA = 4
"""Corpora named in a title."""


def overview(configuration: Configuration, summaries: Sequence[Summary]) -> Table:
    """Return one row per policy: sums over its episodes against plain clang."""
    metrics = dict.fromkeys((configuration.metric, TEXT))
    sizes = [heading for name in metrics for heading in (with_unit(name), "clang", "total")]
    failed = ["failed"] * any(summary.failures for summary in summaries)
    rows = []
    for summary in summaries:
        changes = [summary.changes[name] for name in metrics]
        cells = [cell for one in changes for cell in (number(one.value), number(one.baseline), percent(one.total))]
        counts = (changes[0].better, changes[0].equal, changes[0].worse, *([summary.failures] * len(failed)))
        rows.append((summary.policy, str(summary.modules), *cells, *map(str, counts)))
    columns = ("policy", "modules", *sizes, "better", "equal", "worse", *failed)
    return Table(describe(configuration), columns, tuple(rows))


def certainty(metric: str, summaries: Sequence[Summary]) -> Table:
    """Return one row per policy: its statistics with their intervals."""
    return Table(
        f"Change of {metric} in %, with 95 % intervals over projects and modules",
        ("policy", "total", "geo-mean", "middle half"),
        tuple((summary.policy, *map(change, estimates(summary.changes[metric]))) for summary in summaries),
    )


def by_group(kind: str, metric: str, groups: Mapping[str, Sequence[Summary]]) -> Table:
    """Return one row per group of modules, such as a `project`: the geometric-mean change of each policy."""
    policies = tuple(summary.policy for summary in next(iter(groups.values())))
    rows = []
    for name, summaries in groups.items():
        modules = max((summary.modules for summary in summaries), default=0)
        if modules:
            means = [estimates(summary.changes[metric]).mean if summary.modules else None for summary in summaries]
            cells = ["-" if mean is None else change(mean) for mean in means]
            rows.append((name, str(modules), *cells))
    return Table(f"Geometric-mean change of {metric} in %, by {kind}", (kind, "modules", *policies), tuple(rows))


def between_policies(pairs: Sequence[tuple[str, str, Change]]) -> Table | None:
    """Return one row per pair of policies: how often the first beats the second. None without pairs."""
    rows = tuple(
        (
            f"{first} / {second}",
            probability(pair.probability),
            change(estimates(pair).mean),
            f"{pair.better}/{pair.equal}/{pair.worse}",
        )
        for first, second, pair in pairs
        if pair.modules
    )
    title = "First policy against second: probability of a smaller module (a tie counts half); smaller/equal/larger"
    return Table(title, ("policies", "smaller", "geo-mean %", "modules"), rows) if rows else None


def wins_and_losses(metric: str, summaries: Sequence[Summary], *, narrow: bool = True) -> list[Table]:
    """Return two tables per policy: its largest reductions and its largest increases.

    `default` has tables if it is the only policy. `narrow` shortens long names, so that a table fits a page of text.
    """
    return [
        extremes_table(f"Where {summary.policy} {verb} most", rows, metric, narrow=narrow)
        for summary in summaries
        if summary.policy != DEFAULT or len(summaries) == 1
        for verb, rows in zip(("wins", "loses"), summary.changes[metric].extremes(), strict=True)
        if rows
    ]


def extremes_table(
    title: str, rows: Sequence[Extreme], metric: str, baseline: str = "clang", *, narrow: bool = True
) -> Table:
    """Return one row per module: baseline, under the heading `baseline`, difference, relative change."""
    names = [short(row.module) if narrow else row.module for row in rows]
    cells = tuple(
        (name, number(row.baseline), signed(row.value - row.baseline), percent(row.change))
        for name, row in zip(names, rows, strict=True)
    )
    return Table(title, ("module", baseline, with_unit(metric), "change"), cells)


def describe(configuration: Configuration) -> str:
    """Return a line with environment, corpora, modules, optimisation levels and compiler."""
    names = [path.rstrip("/").rpartition("/")[2] for path in configuration.corpus.split(",")]
    corpora = ",".join(names) if len(names) <= _MAX_CORPORA else f"{names[0]} and {len(names) - 1} more"
    part = f" ({configuration.split})" if configuration.split else ""
    modules = f"{count(configuration.modules, 'module')} ({levels(configuration)})"
    return f"{configuration.environment} on {corpora}{part}: {modules}, clang {configuration.clang}"


def levels(configuration: Configuration) -> str:
    """Return the modules per optimisation level, for each corpus separately if corpora differ in their levels."""
    distinct = {tuple(sorted(set(counts) - {"no functions"})) for counts in configuration.levels.values()} - {()}
    if len(distinct) > 1:
        return "; ".join(f"{corpus}: {_by_level(counts)}" for corpus, counts in sorted(configuration.levels.items()))
    total: Counter[str] = Counter()
    for counts in configuration.levels.values():
        total.update(counts)
    return _by_level(total)


def _by_level(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{total} {'with' if ' ' in level else 'at'} {level}" for level, total in sorted(counts.items()))
