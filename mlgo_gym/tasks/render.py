"""A decision for a person: as text, and as a picture with the decisions so far and their effect on the size."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.extras import library
from mlgo_gym.tasks.task import Task

WIDTH, HEIGHT = 480, 288
"""Size of a picture in pixels; multiples of 16, as video encoders like it."""

_MARGIN = 12
_TOP, _LINE, _ROWS = 38, 19, 5
_LABEL = 96
_CHART_TOP, _CHART_BOTTOM = 202, 252
_STRIP_TOP, _STRIP_BOTTOM = 262, 276
_COLUMNS = WIDTH - 2 * _MARGIN
_SMALL, _LARGE = 12, 15

_PAPER, _INK, _QUIET = (250, 250, 248), (32, 36, 44), (120, 126, 136)
_BAND, _LIGHT = (38, 50, 66), (236, 240, 245)
_AS_CLANG, _OTHERWISE, _ILLEGAL = (86, 132, 178), (226, 122, 44), (196, 40, 52)

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""


@lru_cache
def font(size: int) -> Any:
    """Return Pillow's own font at a size in pixels."""
    return _pillow("ImageFont").load_default(size)


def _pillow(module: str) -> Any:
    return library(f"PIL.{module}", 'render_mode="rgb_array"', "render")


class _Canvas:
    """A picture under construction."""

    def __init__(self) -> None:
        self.image = _pillow("Image").new("RGB", (WIDTH, HEIGHT), _PAPER)
        self.draw = _pillow("ImageDraw").Draw(self.image)

    def write(self, text: str, x: int, y: int, colour: Colour, size: int = _SMALL, room: int = WIDTH) -> int:
        """Write a line that is cut off after `room` pixels; return its end."""
        while (width := round(font(size).getlength(text))) > room:
            text = text[: min(len(text) - 1, int(len(text) * room / width))]
        self.draw.text((x, y), text, colour, font(size))
        return x + int(width)

    def fill(self, left: int, top: int, right: int, bottom: int, colour: Colour) -> None:
        """Fill a rectangle, without its right and bottom edges."""
        self.image.paste(colour, (left, top, right, bottom))


class EpisodePicture:
    """Draws the decisions of one environment's episodes."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.begin("")

    def begin(self, module: str) -> None:
        """Record that an episode of a module has begun."""
        self._module = module
        self._decided: list[Colour] = []
        self._estimates: list[tuple[float, float]] = []
        self._last = ""
        self._outcome: Mapping[str, Any] | None = None

    def decide(self, decision: Decision, action: Any, *, illegal: bool = False) -> None:
        """Record the action at a decision; `illegal` if it replaces an illegal one."""
        task = self._task
        default = task.default_action(decision)
        same = bool(np.all(np.asarray(action) == np.asarray(default)))
        self._decided.append(_ILLEGAL if illegal else _AS_CLANG if same else _OTHERWISE)
        self._last = task.name_action(action)
        ours, clangs = self._estimates[-1] if self._estimates else (0.0, 0.0)
        self._estimates.append((ours + task.estimate(decision, action), clangs + task.estimate(decision, default)))

    def end(self, info: Mapping[str, Any]) -> None:
        """Record the last info of an episode."""
        self._outcome = info

    def copy(self) -> EpisodePicture:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied._decided, copied._estimates = self._decided.copy(), self._estimates.copy()
        return copied

    def draw(self, decision: Decision | None) -> npt.NDArray[np.uint8]:
        """Return the picture, a fresh uint8 array of shape (288, 480, 3), with the pending decision if there is one.

        Raises:
            MissingExtraError: Pillow is not installed.
        """
        canvas = _Canvas()
        canvas.fill(0, 0, WIDTH, 30, _BAND)
        number = f"decision {len(self._decided)}" if decision is not None else f"{len(self._decided)} decisions"
        right = WIDTH - _MARGIN - round(font(_LARGE).getlength(number))
        where = f"{self._module}: {decision.context}" if decision is not None and decision.context else self._module
        canvas.write(where or self._task.name, _MARGIN, 6, _LIGHT, _LARGE, right - 2 * _MARGIN)
        canvas.write(number, right, 6, _LIGHT, _LARGE)
        if decision is not None:
            self._draw_decision(canvas, decision)
        elif self._outcome is not None:
            self._draw_outcome(canvas, self._outcome)
        else:
            canvas.write("no decision waits: call reset()", _MARGIN, 44, _QUIET)
        self._draw_history(canvas)
        return np.array(canvas.image)

    def _draw_decision(self, canvas: _Canvas, decision: Decision) -> None:
        task = self._task
        rows = task.describe(decision)
        if len(rows) > _ROWS:
            rows = [*rows[: _ROWS - 1], ("…", f"and {len(rows) - _ROWS + 1} more")]
        rows += [("", "")] * (_ROWS - len(rows))
        rows.append(("clang would", task.name_action(task.default_action(decision))))
        if self._decided:
            rows.append(("just decided", self._last))
        end = top = 0
        for top, (label, text) in zip(range(_TOP, HEIGHT, _LINE), rows, strict=False):
            canvas.write(label, _MARGIN, top, _QUIET, room=_LABEL - 6)
            end = canvas.write(text, _MARGIN + _LABEL, top, _INK)
        if self._decided:
            canvas.fill(end + 6, top + 2, end + 16, top + 12, self._decided[-1])

    @staticmethod
    def _draw_outcome(canvas: _Canvas, info: Mapping[str, Any]) -> None:
        if info.get("error"):
            canvas.write("the compile failed", _MARGIN, 44, _ILLEGAL, _LARGE)
            canvas.write(str(info["error"]["message"]).partition("\n")[0], _MARGIN, 70, _INK)
            return
        reduction = float(info.get("reduction", 0.0))
        colour, word = (_AS_CLANG, "less") if reduction >= 0 else (_OTHERWISE, "more")
        canvas.write(f"{abs(reduction):.2%} {word} than clang alone", _MARGIN, 44, colour, _LARGE)
        top = 76
        for name in ("text", "spill_cost"):
            if name not in info:
                continue
            ours, clangs = float(info[name]), float(info[f"baseline_{name}"])
            canvas.write(name, _MARGIN, top, _QUIET)
            for label, value, colour in (("now", ours, _OTHERWISE), ("clang", clangs, _AS_CLANG)):
                canvas.write(label, _MARGIN + _LABEL - 20, top, _QUIET)
                left = _MARGIN + _LABEL + 24
                end = left + round(value / (max(ours, clangs) or 1.0) * (WIDTH - left - 110))
                canvas.fill(left, top + 2, end, top + 13, colour)
                canvas.write(f"{value:,.6g}", end + 6, top, _INK)
                top += 20
            top += 8

    def _draw_history(self, canvas: _Canvas) -> None:
        """Draw one column for each of the last decisions: as clang, otherwise, or illegal."""
        decided = self._decided[-_COLUMNS:]
        if not decided:
            return
        width = max(1, min(12, _COLUMNS // len(decided)))
        lefts = range(_MARGIN, WIDTH, width)
        for left, colour in zip(lefts, decided, strict=False):
            canvas.fill(left, _STRIP_TOP, left + width, _STRIP_BOTTOM, colour)
        estimates = np.array(self._estimates[-_COLUMNS:])
        if not estimates.any():
            return
        low, high = min(0.0, float(estimates.min())), max(0.0, float(estimates.max()))
        heights = _CHART_BOTTOM - (estimates - low) / (high - low) * (_CHART_BOTTOM - _CHART_TOP)
        for curve, colour in ((1, _AS_CLANG), (0, _OTHERWISE)):
            # Each estimate is a level line as wide as its decision.
            corners = [left + side for left in lefts[: len(heights)] for side in (0, width)]
            points = list(zip(corners, heights[:, curve].repeat(2), strict=True))
            canvas.draw.line(points, colour, 2)
        ours, clangs = estimates[-1]
        text = f"cost so far as LLVM estimates it: {ours:,.0f}; by clang's choices: {clangs:,.0f}"
        canvas.write(text, _MARGIN, _CHART_TOP - 18, _QUIET)


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
