"""A decision for a person: as text, and as a picture of the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.extras import library
from mlgo_gym.tasks.task import Task

WIDTH, HEIGHT = 480, 288
"""Size of a picture in pixels; multiples of 16, as video encoders like it."""

_MARGIN, _SIZE = 12, 12


def draw_text(text: str) -> npt.NDArray[np.uint8]:
    """Return a picture of a text, a fresh uint8 array of shape (288, 480, 3); what does not fit is cut off.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    image, draw, font = (
        library(f"PIL.{name}", 'render_mode="rgb_array"', "render") for name in ("Image", "ImageDraw", "ImageFont")
    )
    picture = image.new("RGB", (WIDTH, HEIGHT), "white")
    draw.Draw(picture).text((_MARGIN, _MARGIN), text, "black", font.load_default(_SIZE))
    return np.array(picture)


def render_text(task: Task, module: str, number: int, decision: Decision, last_action: Any) -> str:
    """Return a few lines about a decision: where it is, its main features, clang's own choice, the action before."""
    where = f"{module}, function {decision.context}" if decision.context else module
    lines = [f"{task.name} decision {number} of {where}"]
    rows = task.describe(decision)
    width = max(len(label) for label, _ in rows)
    lines += [f"  {label:<{width}}  {text}" for label, text in rows]
    lines.append(f"  clang would {task.name_action(task.default_action(decision))}")
    if last_action is not None:
        lines.append(f"  the decision before: {task.name_action(last_action)}")
    return "\n".join(lines)


def render_end(module: str, number: int, info: Mapping[str, Any]) -> str:
    """Return a few lines about the end of an episode, from its number of decisions and its last info."""
    if info["error"]:
        return f"{module} failed after {number} decisions: {info['error']['message']}"
    lines = [f"{module} is compiled, after {number} decisions"]
    names = [name for name in info if f"baseline_{name}" in info]
    width = max(map(len, names), default=0)
    lines += [f"  {name:<{width}}  {info[name]:,.6g}; clang alone {info[f'baseline_{name}']:,.6g}" for name in names]
    lines.append(f"  {abs(info['reduction']):.2%} {'less' if info['reduction'] >= 0 else 'more'} than clang alone")
    return "\n".join(lines)
