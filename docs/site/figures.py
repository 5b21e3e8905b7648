"""Draws the figures of the pages from the JSON of results, in a light and a dark variant.

    python -m docs.site.figures [NAME...]    # docs/images/NAME-light.svg and docs/images/NAME-dark.svg

Text stays text, so a reader can search it, and files stay small. Colours are the palette of Okabe and Ito, and marks
differ in shape as well.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullFormatter

from docs.site import results_tables, values
from docs.site.themes import GREEN, PINK, THEMES, WIDTH, Theme, percentages, style
from mlgo_gym.explanation import explain_module
from mlgo_gym.explanation.call_graph import call_graph, picture
from mlgo_gym.make_env import make_environment

IMAGES = values.ROOT / "docs" / "images"


def box(
    axes: Any, at: tuple[float, float], size: tuple[float, float], text: str, theme: Theme, bold: bool = False
) -> None:
    """Draw a box with text around a point."""
    (x, y), (width, height) = at, size
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.12",
        fc=theme.box,
        ec=theme.ink,
    )
    axes.add_patch(shape)
    first, *rest = text.split("\n")
    weight = "bold" if bold else "normal"
    axes.text(x, y + 0.11 * len(rest), first, ha="center", va="center", weight=weight)
    for line in rest:
        axes.text(x, y - 0.11, line, ha="center", va="center")


def arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], text: str, theme: Theme, **words: Any
) -> None:
    """Draw an arrow with text beside its middle."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": theme.ink, "lw": 1.3, "mutation_scale": 14})
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    axes.annotate(
        text, middle, **{"ha": "center", "va": "bottom", "xytext": (0, 4), "textcoords": "offset points", **words}
    )


def canvas(height: float) -> tuple[Figure, Any]:
    """Return a figure with axes in inches, for boxes and arrows."""
    picture = Figure(figsize=(WIDTH, height))
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    return picture, axes


def loop(theme: Theme) -> Figure:
    """Return the loop of agent, environment and compiler."""
    picture, axes = canvas(2.3)
    height = 1.45
    box(axes, (0.95, height), (1.5, 0.9), "agent", theme, bold=True)
    box(axes, (4.0, height), (1.7, 0.9), "environment\nmlgo/Inline-v0", theme)
    box(axes, (7.05, height), (1.5, 0.9), "clang", theme, bold=True)
    up, down = height + 0.22, height - 0.22
    arrow(axes, (3.1, up), (1.75, up), "observation", theme)
    arrow(axes, (1.75, down), (3.1, down), "action", theme, va="top", xytext=(0, -5))
    arrow(axes, (6.25, up), (4.9, up), "decision", theme)
    arrow(axes, (4.9, down), (6.25, down), "advice", theme, va="top", xytext=(0, -5))
    box(axes, (7.05, 0.32), (1.5, 0.5), "object file", theme)
    arrow(axes, (7.05, 1.0), (7.05, 0.57), "", theme)
    axes.plot([6.25, 0.95], [0.32, 0.32], color=theme.ink, lw=1.3)
    arrow(axes, (0.95, 0.32), (0.95, 1.0), "", theme)
    axes.text(3.6, 0.4, "reward at the end: bytes of code saved against plain clang", ha="center", va="bottom")
    return picture


FOREST = {
    "oz": {
        "inline-oz": "inline-oz",
        "inline-oz-fast": "inline-oz-fast",
        "threshold-5": "threshold:5",
        "threshold-0": "threshold:0",
        "threshold-20": "threshold:20",
        "smallest-of-five": "smallest of 5 compiles",
    },
    "os": {
        "inline-os": "inline-os",
        "inline-os-fast": "inline-os-fast",
        "threshold-5": "threshold:5",
        "threshold-0": "threshold:0",
        "threshold-20": "threshold:20",
        "smallest-of-five": "smallest of 5 compiles",
    },
}
LANGUAGES = {"c": ("C", "o", -0.16), "cxx": ("C++", "s", 0.16)}
"""Name, mark and shift of each language."""


def forest(theme: Theme) -> Figure:
    """Return the policies and rules of the benchmark with intervals, by level and language."""
    picture = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    colours = {"c": theme.blue, "cxx": theme.orange}
    for axes, (level, methods) in zip(picture.subplots(1, 2), FOREST.items(), strict=True):
        for language, (name, mark, shift) in LANGUAGES.items():
            found = [values.value(f"benchmark.{level}.{each}.{language}") for each in methods]
            heights = [number + shift for number in range(len(found))]
            means = [100 * each["mean"] for each in found]
            ends = [[mean - 100 * each["low"] for mean, each in zip(means, found, strict=True)]]
            ends.append([100 * each["high"] - mean for mean, each in zip(means, found, strict=True)])
            label = f"{name}, {found[0]['modules']} modules"
            axes.errorbar(means, heights, xerr=ends, fmt=mark, ms=5.5, color=colours[language], lw=1.6, label=label)
        axes.axvline(0, color=theme.ink, lw=1)
        axes.set_yticks(range(len(methods)), list(methods.values()))
        axes.set(title=f"-O{level[1]}", xlabel="change of code size")
        axes.invert_yaxis()
        axes.yaxis.grid(visible=False)
        percentages(axes.xaxis)
    picture.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return picture


BUILDS = {
    "plugin": ("plugin, inline-oz", "o"),
    "wrapper": ("wrapper, inline-oz", "s"),
    "recipes 10": ("recipes, 10 compiles", "^"),
}
"""Label and mark of each way to build ten programs."""

COMPILES = {
    "inline-{0}": ("inline-{0}", 1),
    "smallest-of-four": ("smallest of 4", 4),
    "bundles-from-policy-{1}": ("bundles from policy", 0),
    "bundles-{1}": ("bundles", 0),
    "hill-climbing-{1}": ("hill climbing", 0),
    "greedy-{1}": ("greedy", 0),
}


def cost(theme: Theme) -> Figure:
    """Return size against the cost of compiling: ways to build each of ten programs, and searches."""
    picture = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    build, search = picture.subplots(1, 2)
    colours = {"plugin": theme.blue, "wrapper": theme.orange, "recipes 10": GREEN}
    programs = [row["variants"] for row in values.read(values.RESULTS / "ten_programs.json").values()]
    for name, (label, mark) in BUILDS.items():
        points = [
            (min(row[name]["seconds"]) / min(row["Oz"]["seconds"]), 100 * (row[name]["text"] / row["Oz"]["text"] - 1))
            for row in programs
            if name in row
        ]
        build.plot(*zip(*points, strict=True), mark, ms=7, color=colours[name], label=label)
    build.legend(loc=(0.44, 0.15), fontsize=9)
    build.set(
        title="ten programs at -Oz, linked",
        xlabel="CPU time of a build, times plain clang's",
        ylabel="change of code size",
    )
    marks = (
        ("bundles-from-policy-{1}", "v", theme.orange),
        ("bundles-{1}", "s", theme.blue),
        ("hill-climbing-{1}", "^", GREEN),
        ("greedy-{1}", "o", PINK),
    )
    level = "oz"
    for name, mark, colour in marks:
        means = [100 * values.value(f"benchmark.{level}.{name.format(level, compiles)}.mean") for compiles in (10, 50)]
        search.plot([10, 50], means, f"{mark}-", ms=7, color=colour, label=COMPILES[name][0], lw=1.3)
    for name, compiles, mark in (("inline-oz", 1, "D"), ("smallest-of-four", 4, "P")):
        mean = 100 * values.value(f"benchmark.{level}.{name}.searched.mean")
        search.plot(
            compiles, mean, mark, ms=8, color=theme.ink, label=f"{COMPILES[name.replace('oz', '{0}')][0].format(level)}"
        )
    search.set(title="24 held-out modules at -Oz", xlabel="compiles per module", xscale="log", xlim=(0.8, 70))
    search.set_xticks([1, 4, 10, 50], ["1", "4", "10", "50"])
    search.legend(loc="lower left", fontsize=9)
    for axes in (build, search):
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(top=0.3 if axes is search else 1.6)
        percentages(axes.yaxis)
    return picture


def learning(theme: Theme) -> Figure:
    """Return the change of validation modules in three trainings, a line for each seed."""
    picture = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    panels = picture.subplots(1, len(_LEARNING), sharey=True)
    data = values.read(values.RESULTS / "learning.json")
    for axes, (name, title) in zip(panels, _LEARNING.items(), strict=True):
        runs = [run for run in data["runs"] if run["title"] == f"projects {name}"]
        for run, colour, mark in zip(runs, (theme.blue, theme.orange, GREEN), "os^", strict=True):
            minutes = [point[0] for point in run["curve"]]
            changes = [100 * point[2] for point in run["curve"]]
            axes.plot(minutes, changes, f"{mark}-", ms=5, color=colour, label=f"seed {run['seed']}")
        axes.axhline(0, color=theme.ink, lw=1)
        axes.set_xlim(left=0)
        axes.annotate(f"clang -{name[:2]}", (axes.get_xlim()[1], 0), (-4, 4), textcoords="offset points", ha="right")
        axes.set(title=title, xlabel="minutes on two busy cores")
    panels[0].set(ylabel="code size of validation modules")
    panels[0].set_ylim(top=1.0)
    panels[-1].legend(loc="lower left")
    percentages(panels[0].yaxis)
    return picture


_LEARNING = {
    "Os PPO, credit, random weights": "PPO",
    "Os policy iteration, random weights": "policy iteration",
    "Oz policy iteration, from labels": "the same, from labels",
}
"""Names of the trainings, and their titles."""


def bandit_return(theme: Theme) -> Figure:
    """Return the compiled change of policies over their return on labels, a panel for each level."""
    picture = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    levels = values.read(values.RESULTS / "bandit_return.json")["levels"]
    for axes, found in zip(picture.subplots(1, len(levels)), levels, strict=True):
        for kind, mark, colour in (("rule", "o", theme.blue), ("network", "s", theme.orange), ("PPO", "^", GREEN)):
            rows = [row for row in found["policies"] if _kind(row["policy"]) == kind]
            points = [(row["return"], 100 * row["change"]) for row in rows]
            axes.plot(*zip(*points, strict=True), mark, ms=6, color=colour, label=_KINDS[kind])
        axes.axhline(0, color=theme.ink, lw=0.8)
        title = f"-{found['level']}, rank correlation {found['correlation_of_policies']:.2f}"
        axes.set(title=title, xlabel="mean return on labels")
        percentages(axes.yaxis)
    picture.axes[0].set(ylabel="compiled code size")
    picture.axes[0].legend(loc="upper right")
    return picture


_KINDS = {"rule": "rules", "network": "bundled networks", "PPO": "checkpoints of PPO"}
"""Kinds of the policies of `bandit_return`, and their names."""


def _kind(policy: str) -> str:
    return "PPO" if policy.startswith("PPO") else "network" if policy.startswith("inline-") else "rule"


def run_time(theme: Theme) -> Figure:
    """Return size against instructions of held-out programs, a mark for each build."""
    picture = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = picture.subplots()
    colours = {"O2": GREEN, "Os": theme.blue, "Oz": theme.orange}
    for build in results_tables.BUILDS:
        each = values.source("run-time")["held-out"][values.slug(build)]
        level, _, policy = build.partition(" ")
        point = (100 * each["size-change"], 100 * each["instructions-change"])
        axes.plot(*point, "s" if policy else "o", ms=8, color=colours[level])
        place, side = _RUN_TIME.get(build, ((8, 0), "left"))
        label = f"-{level} {policy}" if policy else f"-{level}"
        axes.annotate(label, point, place, textcoords="offset points", ha=side, va="center")
    axes.axhline(0, color=theme.ink, lw=0.8)
    axes.axvline(0, color=theme.ink, lw=0.8)
    axes.set(xlabel="code size of linked programs, against -Oz", ylabel="executed instructions")
    axes.margins(0.12, 0.12)
    axes.set_xlim(left=-24)
    percentages(axes.xaxis)
    percentages(axes.yaxis)
    return picture


_RUN_TIME = {
    "Os threshold:5": ((8, 7), "left"),
    "Os inline-os-fast": ((8, -7), "left"),
    "Os inline-os": ((-8, -4), "right"),
    "Oz": ((8, 9), "left"),
    "Oz inline-oz": ((-8, 0), "right"),
    "Oz inline-oz-fast": ((8, -7), "left"),
}
"""Places of labels that would overlap: offset in points, and alignment."""


def shipping(theme: Theme) -> Figure:
    """Return the decision tree from a compiler and a build to a way of shipping."""
    picture, axes = canvas(4.0)
    left, middle, right = 1.35, 4.0, 6.75
    top, centre, bottom = 3.45, 1.95, 0.5
    question, answer = (2.2, 0.8), (2.2, 0.9)
    box(axes, (left, top), question, "Does clang build\nyour program?", theme)
    box(axes, (middle, top), question, "Is it a distribution's\nclang, 19 or newer?", theme)
    box(axes, (right, top), answer, "plugin\nalso with LTO, --target", theme, bold=True)
    box(axes, (left, centre), answer, "nothing to ship\nGCC requests no decisions", theme, bold=True)
    box(axes, (middle, centre), question, "Does the build\nuse LTO?", theme)
    box(axes, (right, centre), answer, "no policy\nLTO needs the plugin", theme, bold=True)
    box(axes, (middle, bottom), question, "Is there time\nto search?", theme)
    box(axes, (left, bottom), answer, "wrapper, mlgo-clang\nalso with --target", theme, bold=True)
    box(axes, (right, bottom), answer, "recipes\nby mlgo-clang", theme, bold=True)
    half = question[0] / 2
    for x, y, text in ((left, top, "yes"), (middle, top, "yes"), (middle, centre, "yes"), (middle, bottom, "yes")):
        arrow(axes, (x + half, y), (x + 2.65 - half, y), text, theme)
    for x, y, gap in ((left, top, top - centre), (middle, top, top - centre), (middle, centre, centre - bottom)):
        start, end = (x, y - 0.4), (x, y - gap + 0.45)
        arrow(axes, start, end, "no", theme, ha="left", va="center", xytext=(6, 0))
    arrow(axes, (middle - half, bottom), (left + half, bottom), "no", theme)
    return picture


CALLS = ("cpp/iterators", "inline-oz")
"""Module of `builtin` and policy of the call graph."""

_CALLS_STYLE = """
text {{ font: 12.5px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {ink}; }}
.bytes, .key {{ font-size: 11px; }} .change {{ text-anchor: end; font-weight: 600; }}
rect {{ fill: {box}; stroke: {grid}; }} .shrunk rect {{ stroke: {blue}; }} .grown rect {{ stroke: {orange}; }}
.shrunk .change {{ fill: {blue}; }} .grown .change {{ fill: {orange}; }}
.line {{ fill: none; stroke: {both}; stroke-width: 1.4; }} .tip {{ fill: {both}; }}
.both-keep .line {{ stroke-dasharray: 4 4; }}
.second-inlines .line {{ stroke: {blue}; stroke-width: 2.6; }} .second-inlines .tip {{ fill: {blue}; }}
.first-inlines .line {{ stroke: {orange}; stroke-width: 2.6; }} .first-inlines .tip {{ fill: {orange}; }}
"""
_KEYS = {
    "second-inlines": "only {policy} inlines",
    "first-inlines": "only clang inlines",
    "both-inline": "both inline",
    "both-keep": "neither inlines",
}


@cache
def call_graph_picture() -> str:
    """Return the call graph of a module with the decisions of clang and of a policy; it takes two compiles."""
    module, policy = CALLS
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin", "callee_features": True})
    try:
        explanation = explain_module(env, module, ("default", policy), measured=0)
    finally:
        env.close()
    return picture(call_graph(explanation, limit=7), explanation.policies)


def calls(theme: Theme) -> str:
    """Return the call graph with a key and the colours of a theme."""
    drawn = call_graph_picture()
    size = re.search(r'viewBox="0 0 (\d+) (\d+)" width="\d+" height="\d+"', drawn)
    assert size is not None
    width, height = int(size[1]), int(size[2])
    colours = {name: getattr(theme, name) for name in theme.__slots__}
    key = []
    for number, (kind, text) in enumerate(_KEYS.items()):
        left = 12 + number * width // len(_KEYS)
        line = f'<path class="line" d="M{left},{height + 14}h28"/>'
        label = f'<text class="key" x="{left + 34}" y="{height + 18}">{text.format(policy=CALLS[1])}</text>'
        key.append(f'<g class="{kind}">{line}{label}</g>')
    drawn = drawn.replace(size[0], f'viewBox="0 0 {width} {height + 30}" width="{width}" height="{height + 30}"')
    style_sheet = f"<style>{_CALLS_STYLE.format(**colours, both='#8b949e')}</style>"
    drawn = drawn.replace("<title>", f"{style_sheet}\n<title>", 1)
    return drawn.replace("</svg>", "\n".join((*key, "</svg>\n")))


FIGURES: dict[str, Callable[[Theme], Figure | str]] = {
    "loop": loop,
    "forest": forest,
    "cost": cost,
    "learning": learning,
    "bandit_return": bandit_return,
    "run_time": run_time,
    "shipping": shipping,
    "calls": calls,
}


def write(names: Sequence[str]) -> None:
    """Write both variants of the figures."""
    for name in names:
        for variant, theme in THEMES.items():
            with mpl.rc_context(style(theme)):
                picture = FIGURES[name](theme)
                path = IMAGES / f"{name}-{variant}.svg"
                if isinstance(picture, str):
                    path.write_text(picture, encoding="utf-8")
                else:
                    picture.savefig(path, transparent=True, metadata={"Date": None})
                print(f"{path.relative_to(values.ROOT)}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"figures (default: all): {', '.join(FIGURES)}")
    write(parser.parse_args().names or list(FIGURES))


if __name__ == "__main__":
    main()
