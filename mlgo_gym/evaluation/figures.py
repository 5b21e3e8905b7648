"""Figures of a report, drawn by matplotlib: as files, and as SVG elements with the colours of a page."""

from __future__ import annotations

import importlib
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mlgo_gym.evaluation.curves import Curve
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import DEFAULT, Estimate, Summary, estimates, profile
from mlgo_gym.evaluation.table import short, with_unit
from mlgo_gym.extras import library

INK, GRID = "#1a1a1b", "#d0d0d1"
"""Colours of text and grid; a page replaces them, for light and dark mode."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito, distinguishable with colour blindness."""

_STYLE = {
    "font.size": 9,
    "font.family": "sans-serif",
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), GRID),
    "grid.linewidth": 0.5,
    **dict.fromkeys(("axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
}
WIDTH, HEIGHT = 4.9, 3.3
"""Size of a figure in inches, which fits the screen of a telephone."""

_LEGEND_COLUMNS = 2
_LEGEND_ROW = 0.17
"""Height of a row of the legend in inches."""

_MAX_PROJECTS = 30
_MANY = 20
"""Bars of more modules make the vertical axis logarithmic."""
_TICKS = (-95, -80, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100, 200, 500)
_POINTS = "points"

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_DPI = 160
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Figure:
    """A figure of a report.

    Attributes:
        name: File name without ending.
        title: Title.
        text: How to read the figure.
        picture: Figure of matplotlib.
        labels: Label of each point of a group, by the group's id in the picture.
    """

    name: str
    title: str
    text: str
    picture: Any
    labels: dict[str, list[str]] = field(default_factory=dict)


def plotting() -> Any:
    """Return matplotlib.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return library("matplotlib", "the figures of a report", "report")


def figures_of(result: EvaluationResult) -> list[Figure]:
    """Return the figures of an evaluation, none before its first finished module.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    shown = _shown(result)
    if not shown:
        return []
    scatters = [_scatter(result, summary, colour, number) for number, (summary, colour) in enumerate(shown)]
    drawn: list[Figure | None] = [_distribution(result), _profiles(result), *scatters, _projects(result)]
    return [each for each in drawn if each is not None]


def _new(height: float = HEIGHT) -> tuple[Any, Any]:
    matplotlib = plotting()
    figure = importlib.import_module("matplotlib.figure")
    with matplotlib.rc_context(_STYLE):
        picture = figure.Figure(figsize=(WIDTH, height), layout="constrained")
        return picture, picture.add_subplot()


def _legend(picture: Any, axes: Any) -> None:
    """Add the legend above the axes, where it covers nothing, and make the picture higher by its height."""
    handles, labels = axes.get_legend_handles_labels()
    picture.set_figheight(picture.get_figheight() + _LEGEND_ROW * math.ceil(len(labels) / _LEGEND_COLUMNS))
    style = {"ncols": _LEGEND_COLUMNS, "fontsize": 8, "frameon": False, "labelcolor": INK}
    picture.legend(handles, labels, loc="outside upper center", **style)


def _percent_axis(axis: Any) -> None:
    ticker = importlib.import_module("matplotlib.ticker")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0"))


def _shown(result: EvaluationResult) -> list[tuple[Summary, str]]:
    """Return the policies with their colours; `default` only if it is the only one."""
    summaries = [each for each in result.summaries() if each.modules]
    others = [each for each in summaries if each.policy != DEFAULT] or summaries
    return [(each, COLOURS[number % len(COLOURS)]) for number, each in enumerate(others)]


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
    axes.set(xlabel=f"change of {with_unit(metric)} against plain clang", ylabel="modules")
    if tallest > _MANY:
        # Inlining leaves most modules unchanged and changes a few by a lot; both should be visible.
        axes.set_yscale("symlog", linthresh=_MANY / 2)
        ticks = [number for number in (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if number < 1.6 * tallest]
        axes.set_yticks(ticks, list(map(str, ticks)), minor=False)
        axes.set_ylim(0, 1.6 * tallest)
    else:
        axes.yaxis.get_major_locator().set_params(integer=True)
    _percent_axis(axes.xaxis)
    _legend(picture, axes)
    text = (
        f"Number of modules by change, in steps of {step:g} %. Left of 0 they are smaller. The first and the last bar "
        "include all values beyond them."
    )
    return Figure("distribution", "Changes, module by module", text, picture)


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
    thresholds = [largest * number / 100 for number in range(-100, 101)]
    for summary, colour in shown:
        shares, interval = profile(summary.changes[metric], [each / 100 for each in thresholds])
        if interval is not None:
            low, high = ([100 * each for each in ends] for ends in interval)
            axes.fill_between(thresholds, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(thresholds, [100 * each for each in shares], color=colour, label=short(summary.policy, 30), lw=1.4)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel="reduction τ", ylabel="modules reduced by more than τ, %", ylim=(0, 102))
    _percent_axis(axes.xaxis)
    _legend(picture, axes)
    text = (
        "Fraction of the modules that a policy reduces by more than τ, with 95 % intervals. Left of 0: that grow by "
        "less. A curve that is above another everywhere belongs to the better policy."
    )
    return Figure("profiles", "Performance profiles", text, picture)


def _scatter(result: EvaluationResult, summary: Summary, colour: str, number: int) -> Figure:
    picture, axes = _new()
    metric = result.configuration.metric
    pairs = summary.changes[metric].pairs
    sizes, changes = [max(baseline, 1) for _, baseline in pairs], _changes(summary, metric)
    group = f"{_POINTS}-{number}"
    axes.scatter(sizes, changes, s=14, color=colour, alpha=0.65, linewidth=0, gid=group)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(xscale="log", xlabel=f"plain clang, {with_unit(metric)}", ylabel=f"change by {short(summary.policy, 28)}")
    span = max(map(abs, changes), default=0)
    if span > 40:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_yticks([each for each in _TICKS if min(changes) <= each <= max(changes)])
    _percent_axis(axes.yaxis)
    labels = [
        f"{name} ({result.language(name)}): {baseline:,.0f} → {value:,.0f}, {change:+.2f} %"
        for name, (value, baseline), change in zip(summary.changes[metric].modules, pairs, changes, strict=True)
    ]
    text = "Each point is a module; the pointer shows its name. Below 0 the policy's is smaller than plain clang's."
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
    modules = sum(row[1] for row in rows)
    excluded = len(rows) - _MAX_PROJECTS
    rows = sorted(rows, key=lambda row: -row[1])[:_MAX_PROJECTS]
    last = shown[-1][0]
    rows.sort(key=lambda row: (-row[2][last].value if last in row[2] else 0, row[0]))
    overall = {each.policy: estimates(each.changes[metric]).mean for each in result.summaries() if each.modules}
    rows.append(("all", modules, {name: overall[name] for name, _ in shown}))
    picture, axes = _new(0.83 + 0.17 * len(rows) * max(1.0, 0.62 * len(shown)))
    for number, (policy, colour) in enumerate(shown):
        shift = 0.6 * ((len(shown) - 1) / 2 - number) / len(shown)
        points = [(height + shift, row[2][policy]) for height, row in enumerate(rows) if policy in row[2]]
        for height, estimate in points:
            if estimate.interval is not None:
                axes.plot([100 * end for end in estimate.interval], [height] * 2, color=colour, lw=1.3)
        values, heights = [100 * estimate.value for _, estimate in points], [height for height, _ in points]
        axes.plot(values, heights, "o", ms=3.4, color=colour, label=short(policy, 30))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [f"{short(name, 18)} ({count})" for name, count, _ in rows], fontsize=7.5)
    axes.set(xlabel=f"geometric-mean change of {with_unit(metric)}", ylim=(-0.7, len(rows) - 0.3))
    _percent_axis(axes.xaxis)
    _legend(picture, axes)
    text = (
        "Geometric-mean change over the modules of each project, with its 95 % interval; the number of modules is in "
        "brackets. The interval of all modules includes the choice of projects."
    )
    if excluded > 0:
        text += f" {excluded} projects with fewer modules are not shown."
    return Figure("projects", "By project", text, picture)


def curve_figures(curves: Sequence[Curve]) -> list[Figure]:
    """Return one figure per kind of learning curve, and one for all searches.

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
    for curve, colour in zip(curves, cycle(COLOURS), strict=False):
        steps = [step for step, _ in curve.points]
        values = [100 * value if search else value for _, value in curve.points]
        label = f"{curve.origin}: {curve.name}" if search else curve.origin
        more = {"where": "post"} if search else {}
        draw(steps, values, color=colour, lw=1.3, label=short(label, 40), **more)
    axes.set(xlabel=curves[0].unit, ylabel="geometric-mean change" if search else name)
    if search:
        axes.set_xscale("log")
        _percent_axis(axes.yaxis)
    _legend(picture, axes)
    if search:
        text = "Geometric-mean change of the best compile of each module so far, against plain clang."
        return Figure(f"search-{number + 1}", "Searches", text, picture)
    return Figure(f"learning-{number + 1}", f"Learning: {name}", "Values that the training logged.", picture)


def write_figures(figures: list[Figure], folder: Path) -> list[Path]:
    """Write each figure as `NAME.svg` and `NAME.png` on white, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in figures:
        for ending in ("svg", "png"):
            path = folder / f"{figure.name}.{ending}"
            more = {"metadata": _NO_METADATA} if ending == "svg" else {"dpi": _DPI}
            with plotting().rc_context({"svg.fonttype": "path", "svg.hashsalt": figure.name}):
                figure.picture.savefig(path, facecolor="white", **more)
            paths.append(path)
    return paths


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element for a page.

    Texts stay texts, in the font of the page. Ink and grid have the colours `currentColor` and `--grid` of the page. A
    labelled point has a `<title>`, which browsers show under the pointer. The prefix of all ids is unique in the page.
    """
    buffer = io.StringIO()
    with plotting().rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.picture.savefig(buffer, format="svg", metadata=_NO_METADATA)
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for unused in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(unused)
    for group in root.iter(f"{{{_SVG}}}g"):
        labels = figure.labels.get(group.get("id", ""))
        if labels is not None:
            _label_points(group, labels)
    _rename_ids(root, prefix)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", f"{figure.title}. {figure.text}")
    text = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    text = text.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    text = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", text)
    return re.sub(r"\n\s*", "\n", text)


def _label_points(group: ElementTree.Element, labels: list[str]) -> None:
    points = list(group.iter(f"{{{_SVG}}}use"))
    if len(points) != len(labels):
        raise AssertionError(f"expected {len(labels)} points of matplotlib, got {len(points)}")
    for point, label in zip(points, labels, strict=True):
        ElementTree.SubElement(point, f"{{{_SVG}}}title").text = label


def _rename_ids(root: ElementTree.Element, prefix: str) -> None:
    """Prefix the ids that the element refers to, and remove all others."""
    text = ElementTree.tostring(root, encoding="unicode")
    referenced = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    for element in root.iter():
        name = element.get("id")
        if name in referenced:
            element.set("id", f"{prefix}-{name}")
        elif name is not None:
            del element.attrib["id"]
        for attribute, value in list(element.attrib.items()):
            if attribute == f"{{{_XLINK}}}href":
                del element.attrib[attribute]
                element.set("href", f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                element.set(attribute, value.replace("url(#", f"url(#{prefix}-"))
