"""Tables of an evaluation, the formats of their numbers, and tables as aligned text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlgo_gym.evaluation.record import Configuration
from mlgo_gym.evaluation.statistics import DEFAULT, LOADED, MIN_PROJECTS, TEXT, Change, Estimate, Extreme, Summary
from mlgo_gym.tasks.measurement import BYTE_METRICS

PAGE_COLUMNS = 80
_GAP = 2
_LONGEST = 46

_MAX_CORPORA = 4
"""Corpora named in a title."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with headings. The first column is text, the others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self, width: int = PAGE_COLUMNS) -> str:
        """Return the table with aligned columns; columns that do not fit `width` go below, each time with the first."""
        first, *widths = (max(map(len, cells)) for cells in zip(self.columns, *self.rows, strict=True))
        tables: list[list[int]] = []
        free = 0
        for column, needed in enumerate(widths, start=1):
            if needed + _GAP > free:
                tables.append([0])
                free = width - first
            tables[-1].append(column)
            free -= needed + _GAP
        return "\n\n".join([self.title, *map(self._aligned, tables)])

    def _aligned(self, columns: list[int]) -> str:
        lines = [tuple(line[column] for column in columns) for line in (self.columns, *self.rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        gap = " " * _GAP
        aligned = [
            gap.join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
        ]
        return "\n".join([aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])


def with_unit(metric: str) -> str:
    """Return a metric's name with its unit, such as `text bytes`; costs have no unit."""
    return f"{metric} bytes" if metric in BYTE_METRICS else metric


def number(value: float) -> str:
    """Return a size or a cost, rounded to an integer."""
    return f"{value:,.0f}"


def signed(value: float) -> str:
    """Return a difference of sizes or costs."""
    return f"{value:+,.0f}" if value else "0"


def percent(value: float) -> str:
    """Return a relative change: -0.02 is `-2.00 %`."""
    return f"{100 * value:+.2f} %" if value else "0"


def change(estimate: Estimate) -> str:
    """Return a relative change in percent with its interval, if it has one: `-2.00 [-3.10, -0.90]`."""
    value = f"{100 * estimate.value:+.2f}" if estimate.value else "0"
    if estimate.interval is None:
        return value
    low, high = estimate.interval
    return f"{value} [{100 * low:+.2f}, {100 * high:+.2f}]"


def change_and_projects(one: Change) -> tuple[str, str]:
    """Return the mean of a change as `change()` does, with the reason if it has no interval, and the projects.

    The mean excludes modules of the training; the text has their number.
    """
    reason = "" if one.estimate.interval else " modules only" if one.projects < MIN_PROJECTS else " projects equal"
    if one.trained:
        everything = len(one.trained) == len(one.pairs)
        reason = " all of the training" if everything else f"{reason}, not {len(one.trained)} of the training"
    return change(one.estimate) + reason, str(one.projects)


def count(quantity: int, noun: str) -> str:
    """Return a count with its noun: `1 module`, `1,200 modules`."""
    return f"{quantity:,} {noun}{'s' * (quantity != 1)}"


def short(name: str, longest: int = _LONGEST) -> str:
    """Return a name of at most `longest` characters, its middle replaced by an ellipsis."""
    if len(name) <= longest:
        return name
    end = (longest - 1) * 2 // 3
    return f"{name[: longest - 1 - end]}…{name[-end:]}"


def printable(text: str) -> str:
    """Return a text in one line with control characters, lone surrogates and the like escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
    """Return one row per policy: its mean over projects with its interval, or why it has none, and that of `loaded`."""
    others = [LOADED] * (metric != LOADED and all(LOADED in summary.changes for summary in summaries))
    rows = []
    for summary in summaries:
        loaded = [change(summary.changes[name].estimate) for name in others]
        rows.append((summary.policy, *change_and_projects(summary.changes[metric]), *loaded))
    title = f"Change of {metric} in %, each project with equal weight, and 95 % interval over projects"
    return Table(title, ("policy", "geo-mean", "projects", *others), tuple(rows))


def by_group(kind: str, metric: str, groups: Mapping[str, Sequence[Summary]]) -> Table:
    """Return one row per group of modules, such as a `language`: its projects, and the mean change of each policy."""
    policies = tuple(summary.policy for summary in next(iter(groups.values())))
    rows = []
    for name, summaries in groups.items():
        modules = max((summary.modules for summary in summaries), default=0)
        if modules:
            cells = [change(summary.changes[metric].estimate) if summary.modules else "-" for summary in summaries]
            projects = max(summary.changes[metric].projects for summary in summaries)
            rows.append((name, str(modules), str(projects), *cells))
    title = f"Geometric-mean change of {metric} in %, by {kind}; intervals over {MIN_PROJECTS} projects or more"
    return Table(title, (kind, "modules", "projects", *policies), tuple(rows))


def between_policies(pairs: Sequence[tuple[str, str, Change]]) -> Table | None:
    """Return one row per pair of policies: how often the first beats the second. None without pairs."""
    rows = tuple(
        (
            f"{first} / {second}",
            f"{pair.probability:.0%}",
            *change_and_projects(pair),
            f"{pair.better}/{pair.equal}/{pair.worse}",
        )
        for first, second, pair in pairs
        if pair.modules
    )
    title = "First policy against second: probability of a smaller module (a tie counts half); smaller/equal/larger"
    return Table(title, ("policies", "smaller", "geo-mean %", "projects", "modules"), rows) if rows else None


def wins_and_losses(metric: str, summaries: Sequence[Summary]) -> list[Table]:
    """Return two tables per policy: its largest reductions and its largest increases.

    `default` has tables if it is the only policy.
    """
    return [
        extremes_table(f"Where {summary.policy} {verb} most", rows, metric)
        for summary in summaries
        if summary.policy != DEFAULT or len(summaries) == 1
        for verb, rows in zip(("wins", "loses"), summary.changes[metric].extremes(), strict=True)
        if rows
    ]


def extremes_table(title: str, rows: Sequence[Extreme], metric: str, baseline: str = "clang") -> Table:
    """Return one row per module: baseline, under the heading `baseline`, difference, relative change."""
    cells = tuple(
        (short(row.module), number(row.baseline), signed(row.value - row.baseline), percent(row.change)) for row in rows
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
