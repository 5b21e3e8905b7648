"""Draws the figures of the pages from the JSON of results, in a light and a dark variant.

    python -m docs.site.figures    # docs/images/NAME-light.svg and docs/images/NAME-dark.svg

Text stays text, so a reader can search it, and files stay small. Colours are the palette of Okabe and Ito, and marks
differ in shape as well. The other pictures of docs/images are drawings without measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.measuring import ROOT, command_line
from benchmarks.protocol import LEVELS
from docs.site import linked as linked_programs
from docs.site import measurements, tables

IMAGES = ROOT / "docs" / "images"

WIDTH = 8.0
"""Width of a figure in inches; browsers show it in 768 pixels."""

GREEN = "#009e73"


class Theme(NamedTuple):
    """Colours of a variant."""

    ink: str
    grid: str
    blue: str
    orange: str


THEMES = {
    "light": Theme("#1f2328", "#d1d5db", "#0072b2", "#d55e00"),
    "dark": Theme("#e6edf3", "#3d444d", "#56b4e9", "#e69f00"),
}
INK = ("axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
LINES = ("axes.edgecolor", "grid.color")
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "mlgo-gym", "font.size": 10.5,
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none",
}  # fmt: skip
"""Settings of matplotlib."""


def percentages(axis: Any) -> None:
    """Label an axis of relative changes in per cent."""
    text = FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "\N{MINUS SIGN}") if value else "0")
    axis.set_major_formatter(text)


LEARNING = {
    "Os PPO, credit, random weights": "PPO",
    "Os policy iteration, random weights": "policy iteration",
    "Oz policy iteration, from labels": "the same, from labels",
}
"""Names of the trainings, and their titles."""


def learning(theme: Theme) -> Figure:
    """Return the change of validation modules in three trainings, a line for each seed."""
    picture = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    panels = picture.subplots(1, len(LEARNING), sharey=True)
    for axes, (name, title) in zip(panels, LEARNING.items(), strict=True):
        runs = [run for run in measurements.read("learning")["runs"] if run["title"] == name]
        for run, colour, mark in zip(runs, (theme.blue, theme.orange, GREEN), "os^", strict=True):
            minutes, _, changes = zip(*run["curve"], strict=True)
            changes = [100 * change for change in changes]
            axes.plot(minutes, changes, f"{mark}-", ms=5, color=colour, label=f"seed {run['seed']}")
        axes.axhline(0, color=theme.ink, lw=1)
        axes.set_xlim(left=0)
        axes.annotate(f"clang -{name[:2]}", (axes.get_xlim()[1], 0), (-4, 4), textcoords="offset points", ha="right")
        axes.set(title=title, xlabel="minutes on two busy cores")
    panels[0].set(ylabel="code size of validation modules", ylim=(None, 1.0))
    panels[-1].legend(loc="lower left")
    percentages(panels[0].yaxis)
    return picture


LABELS = {
    "Os last-call": ((8, 4), "left"),
    "Os threshold:5": ((8, -4), "left"),
    "Oz": ((8, 9), "left"),
    "Oz last-call": ((-8, 0), "right"),
}
"""Places of labels that would overlap: offset in points, and alignment."""


def run_time(theme: Theme) -> Figure:
    """Return size against instructions of held-out programs, a mark for each build."""
    picture = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = picture.subplots()
    colours = {"O2": GREEN, "Os": theme.blue, "Oz": theme.orange}
    # At -Oz, `threshold:5` has the place of plain clang.
    for build in (build for build in tables.RUN_TIME_BUILDS if build != "Oz threshold:5"):
        row = measurements.run_time()[build]
        level, _, policy = build.partition(" ")
        point = (100 * row["size"], 100 * row["instructions"][0])
        axes.plot(*point, "s" if policy else "o", ms=8, color=colours[level])
        place, side = LABELS.get(build, ((8, 0), "left"))
        axes.annotate(f"-{build}", point, place, textcoords="offset points", ha=side, va="center")
    axes.axhline(0, color=theme.ink, lw=0.8)
    axes.axvline(0, color=theme.ink, lw=0.8)
    axes.margins(0.12, 0.12)
    axes.set(
        xlabel="code size of linked programs, against -Oz; left is smaller",
        ylabel="instructions; lower is less",
        xlim=(-24, None),
    )
    percentages(axes.xaxis)
    percentages(axes.yaxis)
    return picture


PROJECTS = {"earlier sets": measurements.held_out_projects, "opened once": tables.OPENED[", both"]}
"""Sets of held-out projects in the picture of projects."""


def projects(theme: Theme) -> Figure:
    """Return the change of each held-out project by the bundled rule, a dot for each, and the means."""
    picture = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    axes = picture.subplots()
    rows = [*product(tables.LANGUAGES, LEVELS, PROJECTS)]
    for place, (language, level, title) in enumerate(reversed(rows)):
        found = PROJECTS[title](language, level, tables.LAST_CALL)
        means = np.array(sorted(100 * change.mean for change in found.values()))
        offsets = np.resize([0.0, 0.14, -0.14, 0.26, -0.26], len(means))
        colour, mark = (theme.orange, "o") if language == "C++" else (theme.blue, "s")
        axes.plot(means, place + offsets, mark, ms=5, color=colour, alpha=0.75, ls="")
        axes.plot([np.mean(means)] * 2, [place - 0.36, place + 0.36], color=theme.ink, lw=2)
    axes.axvline(0, color=theme.ink, lw=0.8)
    labels = [f"{language}, -{level}, {title}" for language, level, title in reversed(rows)]
    axes.set(yticks=range(len(rows)), yticklabels=labels)
    axes.set(xlabel="code size against plain clang at the same level; left is smaller, bars are means")
    axes.grid(visible=False, axis="y")
    percentages(axes.xaxis)
    return picture


LINKED = {
    "Oz": "clang -Oz",
    "rule": "mlgo-gym build",
    "thin": "ThinLTO",
    "thin without imports": "ThinLTO, import limit 0",
    "full": "full LTO",
    "g++": "g++ 12 -Oz",
}
"""Builds of benchmarks/linked.py in the picture of linked programs, and their titles."""


def linked(theme: Theme) -> Figure:
    """Return the size of linked C++ programs by way to build: a bar for each mean, and a dot for each program."""
    picture = Figure(figsize=(5.5, 3.9), layout="constrained")  # whole and legible on a phone
    axes = picture.subplots()
    links = (("gc", "--gc-sections", theme.blue, 0.2), ("icf", "--gc-sections --icf=all", theme.orange, -0.2))
    programs = linked_programs.programs(*linked_programs.GROUPS["15 in C++"])
    for link, title, colour, offset in links:
        changes = [linked_programs.against_sections(programs, step, link) for step in reversed(LINKED)]
        places = np.arange(len(LINKED)) + offset
        axes.barh(places, [100 * change.mean for change in changes], 0.38, color=colour, alpha=0.6, label=title)
        for place, change in zip(places, changes, strict=True):
            dots = [100 * (value / base - 1) for value, base in change.pairs]
            axes.plot(dots, [place] * len(dots), "o", ms=3, color=theme.ink, alpha=0.5, ls="")
    axes.axvline(0, color=theme.ink, lw=0.8)
    axes.set(yticks=range(len(LINKED)), yticklabels=[*reversed(LINKED.values())])
    axes.set(xlabel="size of 15 C++ programs against clang -Oz\nwith --gc-sections; left is smaller")
    picture.legend(loc="outside upper center", ncols=len(links))
    axes.grid(visible=False, axis="y")
    percentages(axes.xaxis)
    return picture


PROGRAMS = {"internal": "facts, clang's own choices", "rule": "facts, last-call", "full": "full LTO", "g++": "g++ 12"}
"""Builds of benchmarks/linked.py in the picture of each program, and their titles."""


def programs(theme: Theme) -> Figure:
    """Return the change of each linked program by way to build, without and with folding."""
    picture = Figure(figsize=(WIDTH, 6.4), layout="constrained")
    panels = picture.subplots(1, 2, sharex=True, sharey=True)
    rows = linked_programs.programs(*linked_programs.GROUPS["15 in C++"], "C")
    names = [f"{name}, C" if row["group"] == "C" else name for name, row in rows.items()]
    for axes, link, title in zip(panels, ("gc", "icf"), ("--gc-sections", "--gc-sections --icf=all"), strict=True):
        for step, colour, mark in zip(PROGRAMS, (theme.blue, theme.orange, GREEN, theme.ink), "os^x", strict=True):
            build = linked_programs.build_of(step, link)
            found = linked_programs.changes(rows, build, linked_programs.text(link))
            at = [list(rows).index(name) for name in found.clusters]
            changes = [100 * (value / base - 1) for value, base in found.pairs]
            label = PROGRAMS[step] if link == "gc" else None
            axes.plot(changes, at, mark, ms=5.5, color=colour, alpha=0.85, ls="", label=label)
        axes.axvline(0, color=theme.ink, lw=0.8)
        axes.set(title=title, xlabel="change of .text, left is smaller")
        percentages(axes.xaxis)
    panels[0].set(yticks=range(len(names)), yticklabels=names)
    panels[0].invert_yaxis()
    picture.legend(loc="outside upper center", ncols=len(PROGRAMS))
    return picture


FIGURES: dict[str, Callable[[Theme], Figure]] = {
    "learning": learning,
    "linked": linked,
    "programs": programs,
    "projects": projects,
    "run_time": run_time,
}


def main() -> None:
    """Draw both variants of the figures."""
    command_line(__doc__).parse_args()
    for name, draw in FIGURES.items():
        for variant, theme in THEMES.items():
            colours: dict[str, Any] = dict.fromkeys(INK, theme.ink) | dict.fromkeys(LINES, theme.grid)
            with mpl.rc_context({**SETTINGS, **colours}):
                path = IMAGES / f"{name}-{variant}.svg"
                draw(theme).savefig(path, transparent=True, metadata={"Date": None})
                print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
