"""The figures of a report, drawn by matplotlib."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlgo_gym.evaluation.intervals import Estimate, estimates, profile
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.summary import Summary
from mlgo_gym.evaluation.tables import DEFAULT
from mlgo_gym.evaluation.wording import short, unit
from mlgo_gym.extras import library
from mlgo_gym.reporting.curves import Curve

INK, GRID = "#1a1a1b", "#d0d0d1"
"""Text and grid; a page draws them in colours of its own, so that they are seen by day and by night."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Those of Okabe and Ito, which people who see fewer colours tell apart."""

_STYLE = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
WIDTH, HEIGHT = 4.9, 3.3
"""The size of a figure, in inches: as wide as the screen of a telephone when a point is a pixel."""

_MOST_PROJECTS = 30
_MANY = 20
"""So many modules in a bar make the others hard to see."""
_TICKS = (-95, -80, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100, 200, 500)
_POINTS = "points"


@dataclass(frozen=True)
class Figure:
    """A figure of a report.

    Attributes:
        name: a word for its file.
        title: what it shows.
        text: how to read it.
        picture: matplotlib's figure.
        labels: for each group of points, by its id in the picture, what each point is.
    """

    name: str
    title: str
    text: str
    picture: Any
    labels: dict[str, list[str]] = field(default_factory=dict)


def plotting() -> Any:
    """Return matplotlib, drawing without a screen.

    Raises:
        MissingExtraError: it is not installed.
    """
    return library("matplotlib", "the figures of a report", "report")


def _new(height: float = HEIGHT) -> tuple[Any, Any]:
    matplotlib = plotting()
    figure = importlib.import_module("matplotlib.figure")
    with matplotlib.rc_context(_STYLE):
        picture = figure.Figure(figsize=(WIDTH, height), layout="constrained")
        return picture, picture.add_subplot()


def _shown(result: EvaluationResult) -> list[tuple[Summary, str]]:
    """Return the policies with their colours; `default` only where there is no other."""
    summaries = [each for each in result.summaries() if each.modules]
    others = [each for each in summaries if each.policy != DEFAULT] or summaries
    return [(each, COLOURS[number % len(COLOURS)]) for number, each in enumerate(others)]


def figures_of(result: EvaluationResult) -> list[Figure]:
    """Return the figures of an evaluation; none where no module was finished.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if not _shown(result):
        return []
    drawn: list[Figure | None] = [_distribution(result), _profiles(result), *_scatters(result), _projects(result)]
    return [each for each in drawn if each is not None]


def _percent_axis(axis: Any) -> None:
    ticker = importlib.import_module("matplotlib.ticker")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0"))


def _legend(axes: Any, **more: Any) -> None:
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, **more)


def _changes(summary: Summary, metric: str) -> list[float]:
    return [100 * math.expm1(each) for each in summary.changes[metric].logarithms]


def _distribution(result: EvaluationResult) -> Figure:
    picture, axes = _new()
    metric = result.configuration.metric
    shown = [(summary, colour, _changes(summary, metric)) for summary, colour in _shown(result)]
    everything = sorted(value for _, _, values in shown for value in values)
    low, high = (everything[round(part * (len(everything) - 1))] for part in (0.01, 0.99))
    step = max(_round_step((high - low) / 30), 0.1)
    edges = [step * number - step / 2 for number in range(math.floor(low / step), math.ceil(high / step) + 2)]
    tallest = 0.0
    for summary, colour, values in shown:
        clipped = [min(max(value, edges[0]), edges[-1]) for value in values]
        axes.hist(clipped, edges, histtype="stepfilled", color=colour, alpha=0.25)
        heights, _, _ = axes.hist(
            clipped, edges, histtype="step", color=colour, linewidth=1.4, label=short(summary.policy, 30)
        )
        tallest = max(tallest, float(max(heights)))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel=f"change of {unit(metric)} against plain clang", ylabel="modules")
    if tallest > _MANY:
        # Most modules of an inliner's corpus do not change, and a few change a lot: both are to be seen.
        axes.set_yscale("symlog", linthresh=_MANY / 2)
        ticks = [number for number in (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if number < 1.6 * tallest]
        axes.set_yticks(ticks, list(map(str, ticks)), minor=False)
        axes.set_ylim(0, 1.6 * tallest)
    _percent_axis(axes.xaxis)
    _legend(axes, loc="upper left")
    text = (
        f"How many modules changed by how much, in steps of {step:g} %; left of 0 they are smaller. What "
        "lies beyond the ends counts in the last bar."
    )
    return Figure("distribution", "Changes of size, module by module", text, picture)


def _round_step(value: float) -> float:
    if value <= 0:
        return 0.1
    power = 10 ** math.floor(math.log10(value))
    return float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value))


def _profiles(result: EvaluationResult) -> Figure:
    picture, axes = _new()
    metric = result.configuration.metric
    largest = 1.0
    shown = _shown(result)
    for summary, _ in shown:
        values = sorted(map(abs, _changes(summary, metric)))
        largest = max(largest, values[round(0.98 * (len(values) - 1))])
    thresholds = tuple(largest * number / 100 for number in range(-100, 101))
    for summary, colour in shown:
        found = profile(summary.changes[metric], tuple(each / 100 for each in thresholds))
        if found.low is not None and found.high is not None:
            low, high = ([100 * each for each in ends] for ends in (found.low, found.high))
            axes.fill_between(thresholds, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(
            thresholds, [100 * each for each in found.shares], color=colour, label=short(summary.policy, 30), lw=1.4
        )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel="reduction τ", ylabel="modules reduced by more than τ, %", ylim=(0, 102))
    _percent_axis(axes.xaxis)
    _legend(axes, loc="lower left")
    text = (
        "The part of the modules that a policy makes smaller by more than τ (left of 0: that grew by less), with 95 % "
        "intervals. A curve above another's everywhere is better wherever one looks."
    )
    return Figure("profiles", "Performance profiles", text, picture)


def _scatters(result: EvaluationResult) -> list[Figure]:
    metric = result.configuration.metric
    return [
        _scatter(result, summary, colour, metric, number) for number, (summary, colour) in enumerate(_shown(result))
    ]


def _scatter(result: EvaluationResult, summary: Summary, colour: str, metric: str, number: int) -> Figure:
    picture, axes = _new()
    pairs = summary.changes[metric].pairs
    sizes, changes = [max(baseline, 1) for _, baseline in pairs], _changes(summary, metric)
    group = f"{_POINTS}-{number}"
    axes.scatter(sizes, changes, s=14, color=colour, alpha=0.65, linewidth=0, gid=group)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(xscale="log", xlabel=f"plain clang, {unit(metric)}", ylabel=f"change with {short(summary.policy, 28)}")
    span = max(map(abs, changes), default=0)
    if span > 40:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_yticks([each for each in _TICKS if min(changes) <= each <= max(changes)])
    _percent_axis(axes.yaxis)
    labels = [
        f"{name} ({result.language(name)}): {baseline:,.0f} → {value:,.0f}, {change:+.2f} %"
        for name, (value, baseline), change in zip(summary.names, pairs, changes, strict=True)
    ]
    text = "Every point is a module; the pointer on it shows its name. Below 0 it is smaller than plain clang's."
    return Figure(f"modules-{number + 1}", f"Plain clang against {summary.policy}", text, picture, {group: labels})


def _projects(result: EvaluationResult) -> Figure | None:
    projects = result.projects
    if len(projects) < 2:
        return None
    metric = result.configuration.metric
    shown = [(summary.policy, colour) for summary, colour in _shown(result)]
    rows: list[tuple[str, int, dict[str, Estimate]]] = []
    for project in projects:
        summaries = {each.policy: each for each in result.summaries(project) if each.modules}
        found = {name: estimates(summaries[name].changes[metric]).mean for name, _ in shown if name in summaries}
        if found:
            rows.append((project, max(each.modules for each in summaries.values()), found))
    left_out = len(rows) - _MOST_PROJECTS
    rows = sorted(rows, key=lambda row: -row[1])[:_MOST_PROJECTS]
    rows.sort(key=lambda row: (-row[2][shown[-1][0]].value if shown[-1][0] in row[2] else 0, row[0]))
    overall = {each.policy: estimates(each.changes[metric]).mean for each in result.summaries() if each.modules}
    rows.append(("all", sum(row[1] for row in rows), {name: overall[name] for name, _ in shown}))
    picture, axes = _new(1.0 + 0.17 * len(rows) * max(1.0, 0.62 * len(shown)))
    for number, (policy, colour) in enumerate(shown):
        shift = 0.6 * ((len(shown) - 1) / 2 - number) / len(shown)
        there = [(place + shift, row[2][policy]) for place, row in enumerate(rows) if policy in row[2]]
        for place, estimate in there:
            if estimate.interval is not None:
                axes.plot([100 * end for end in estimate.interval], [place] * 2, color=colour, lw=1.3)
        axes.plot(
            [100 * estimate.value for _, estimate in there],
            [place for place, _ in there],
            "o",
            ms=3.4,
            color=colour,
            label=short(policy, 30),
        )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [f"{short(name, 18)} ({modules})" for name, modules, _ in rows], fontsize=7.5)
    axes.set(xlabel=f"geometric-mean change of {unit(metric)}", ylim=(-0.7, len(rows) - 0.3))
    _percent_axis(axes.xaxis)
    picture.legend(
        *axes.get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        fontsize=8,
        frameon=False,
        labelcolor=INK,
    )
    text = (
        "The geometric mean over the modules of each project (how many are in brackets) with its 95 % interval; above, "
        "all of them, with projects drawn, too."
    )
    if left_out > 0:
        text += f" {left_out} projects with fewer modules are left out."
    return Figure("projects", "By project", text, picture)


def curve_figures(curves: Sequence[Curve]) -> list[Figure]:
    """Return a figure for each kind of learning curve, and one for all searches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    by_name: dict[str, list[Curve]] = {}
    for curve in curves:
        by_name.setdefault("search" if curve.unit != "step" else curve.name, []).append(curve)
    return [_curve_figure(name, each, number) for number, (name, each) in enumerate(by_name.items())]


def _curve_figure(name: str, curves: Sequence[Curve], number: int) -> Figure:
    picture, axes = _new()
    search = name == "search"
    draw: Callable[..., Any] = axes.step if search else axes.plot
    for place, curve in enumerate(curves):
        steps = [step for step, _ in curve.points]
        values = [100 * value if search else value for _, value in curve.points]
        label = f"{curve.origin}: {curve.name}" if search else curve.origin
        more = {"where": "post"} if search else {}
        draw(steps, values, color=COLOURS[place % len(COLOURS)], lw=1.3, label=short(label, 40), **more)
    axes.set(xlabel=curves[0].unit, ylabel="geometric-mean change" if search else name)
    if search:
        axes.set_xscale("log")
        _percent_axis(axes.yaxis)
    _legend(axes)
    text = (
        "What the best compile of each module so far comes to against plain clang, in geometric mean."
        if search
        else "As the training has written it."
    )
    title = "Searches" if search else f"Learning: {name}"
    return Figure(f"{'search' if search else 'learning'}-{number + 1}", title, text, picture)
