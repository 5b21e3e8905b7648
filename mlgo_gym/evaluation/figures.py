"""Figures of a report, drawn by matplotlib as SVG elements with the colours of a page."""

import importlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import DEFAULT, Floats, Summary
from mlgo_gym.evaluation.table import printable, short, with_unit
from mlgo_gym.extras import library

PURPOSE = "a report as a page"

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
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
}
WIDTH, HEIGHT = 3.9, 2.9
"""Size of a figure in inches, which fits the screen of a telephone."""

_LEGEND_COLUMNS = 2
_LEGEND_ROW = 0.17
"""Height of a row of the legend in inches."""

_TICKS = (-95, -80, -50, -20, -10, -5, 0, 5, 10, 20, 50, 100, 200, 500)

Shown = tuple[Summary, str]
"""A policy and its colour."""

_NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}


class Figure(NamedTuple):
    """A figure of a report: its id and its SVG element in the page, its title, and how to read it."""

    id: str
    title: str
    text: str
    svg: str


def figures_of(result: EvaluationResult, prefix: str) -> list[Figure]:
    """Return the figures of an evaluation, none before its first finished module; their ids start with the prefix."""
    summaries = [summary for summary in result.summaries() if summary.modules]
    # `default` is shown only if it is the only policy.
    summaries = [summary for summary in summaries if summary.policy != DEFAULT] or summaries
    if not summaries:
        return []
    shown = list(zip(summaries, cycle(COLOURS), strict=False))
    scatters = [_scatter(prefix, result, summary, colour, index) for index, (summary, colour) in enumerate(shown)]
    metric = result.configuration.metric
    return [_profiles(prefix, metric, shown), *scatters]


def _new() -> tuple[Any, Any]:
    matplotlib = library("matplotlib", PURPOSE, "report")
    figure = importlib.import_module("matplotlib.figure")
    with matplotlib.rc_context(_STYLE):
        picture = figure.Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        return picture, picture.add_subplot()


def _show_percent(axis: Any) -> None:
    ticker = importlib.import_module("matplotlib.ticker")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0"))


def _show_sizes(axis: Any, sizes: Sequence[float]) -> None:
    """Label a logarithmic axis with the fewest round numbers of which at least three are in the range of the sizes."""
    ticker = importlib.import_module("matplotlib.ticker")
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [step * 10**power for power in range(13) for step in steps]
        if sum(min(sizes) <= tick <= max(sizes) for tick in ticks) > 2:
            break
    axis.set_major_locator(ticker.FixedLocator(ticks))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axis.set_minor_locator(ticker.NullLocator())


def _changes(summary: Summary, metric: str) -> Floats:
    return np.asarray(100 * np.expm1(summary.changes[metric].logarithms), float)


def _profiles(prefix: str, metric: str, shown: Sequence[Shown]) -> Figure:
    picture, axes = _new()
    largest = max(1.0, *(float(np.quantile(np.abs(_changes(summary, metric)), 0.98)) for summary, _ in shown))
    thresholds = np.linspace(-largest, largest, 201)
    for summary, colour in shown:
        shares = (-_changes(summary, metric)[:, None] > thresholds).mean(axis=0)
        axes.plot(thresholds, 100 * shares, color=colour, label=short(printable(summary.policy), 30), lw=1.4)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlabel="reduction τ against plain clang", ylabel="modules reduced by more, %", ylim=(0, 102))
    _show_percent(axes.xaxis)
    # Above the axes the legend covers nothing.
    picture.set_figheight(HEIGHT + _LEGEND_ROW * math.ceil(len(shown) / _LEGEND_COLUMNS))
    picture.legend(loc="outside upper center", ncols=_LEGEND_COLUMNS, fontsize=8, frameon=False, labelcolor=INK)
    text = (
        "Fraction of the modules that a policy reduces by more than τ. Left of 0: that grow by less. A curve that is "
        "above another everywhere belongs to the better policy."
    )
    return _drawn(f"{prefix}-profiles", "Performance profiles", text, picture)


def _scatter(prefix: str, result: EvaluationResult, summary: Summary, colour: str, index: int) -> Figure:
    picture, axes = _new()
    metric = result.configuration.metric
    change, changes, group = summary.changes[metric], _changes(summary, metric), f"points-{index}"
    sizes = [max(baseline, 1) for _, baseline in change.pairs]
    axes.scatter(sizes, changes, s=24, color=colour, alpha=0.65, linewidth=0, gid=group)
    axes.axhline(0, color=INK, linewidth=0.8)
    name = short(printable(summary.policy), 28)
    axes.set(xscale="log", xlabel=f"plain clang, {with_unit(metric)}", ylabel=f"change by {name}")
    _show_sizes(axes.xaxis, sizes)
    if np.abs(changes).max() > 40:
        axes.set_yscale("symlog", linthresh=10)
        axes.set_yticks([tick for tick in _TICKS if changes.min() <= tick <= changes.max()])
    _show_percent(axes.yaxis)
    labels = [
        f"{name} ({result.language(name)}): {baseline:,.0f} → {value:,.0f}, {percent:+.2f} %"
        for name, (value, baseline), percent in zip(change.modules, change.pairs, changes, strict=True)
    ]
    text = "Each point is a module; the pointer shows its name. Below 0 the policy's is smaller than plain clang's."
    title = f"Plain clang against {summary.policy}"
    return _drawn(f"{prefix}-modules-{index + 1}", title, text, picture, {group: labels})


def _drawn(
    name: str, title: str, text: str, picture: Any, labels: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Figure:
    """Return the figure of a picture, as an SVG element whose name starts all ids in it.

    Texts stay texts, in the font of the page. Ink and grid have the colours `currentColor` and `--grid` of the page.
    The points of a group, by its id, have labels: a `<title>`, which browsers show under the pointer.
    """
    buffer = io.StringIO()
    with library("matplotlib", PURPOSE, "report").rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        picture.savefig(buffer, format="svg")
    for namespace, address in _NAMESPACES.items():
        ElementTree.register_namespace(namespace, address)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for unused in root.findall("{*}metadata"):
        root.remove(unused)
    for group in root.iter():
        points = group.findall(".//{*}use") if group.get("id") in labels else []
        for point, label in zip(points, labels.get(group.get("id", ""), ()), strict=True):
            ElementTree.SubElement(point, f"{{{_NAMESPACES['']}}}title").text = label
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    root.attrib.update({"role": "img", "aria-label": f"{title}. {text}"})
    svg = ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
    markup = library("markupsafe", PURPOSE, "report").Markup
    return Figure(name, title, text, markup(re.sub(r"\n\s*", "\n", svg)))
