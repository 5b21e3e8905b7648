"""Colours, settings and labels of the figures, in a light and a dark variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.ticker import FuncFormatter

WIDTH = 8.0
"""Width of a figure in inches; browsers show it in 768 pixels."""

BLUE, ORANGE, GREEN, PINK, YELLOW = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of a variant."""

    ink: str
    grid: str
    box: str
    blue: str
    orange: str


THEMES = {
    "light": Theme("#1f2328", "#d1d5db", "#eef2f6", BLUE, ORANGE),
    "dark": Theme("#e6edf3", "#3d444d", "#262c36", "#56b4e9", YELLOW),
}


def style(theme: Theme) -> dict[str, Any]:
    """Return matplotlib's settings."""
    ink = ("axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "mlgo-gym",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
        "font.size": 10.5,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.edgecolor": theme.grid,
        "grid.color": theme.grid,
        "grid.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "axes.facecolor": "none",
        **dict.fromkeys(ink, theme.ink),
    }


def percentages(axis: Any) -> None:
    """Label an axis of relative changes."""
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "\N{MINUS SIGN}") if value else "0")
    )
