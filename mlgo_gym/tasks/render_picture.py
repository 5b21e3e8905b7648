"""A decision as a picture: where it is, what it is about, what was decided so far, and what that did to the size."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.lettering import Colour, Lettering, Pixels, lettering
from mlgo_gym.tasks.task import Task

WIDTH, HEIGHT = 480, 288
"""The size of a picture in pixels; multiples of 16, as video encoders like it."""

_MARGIN = 12
_TOP, _LINE, _ROWS = 38, 19, 5
_LABEL = 96
_CHART_TOP, _CHART_BOTTOM = 202, 252
_STRIP_TOP, _STRIP_BOTTOM = 262, 276
_COLUMNS = WIDTH - 2 * _MARGIN

_PAPER: Colour = (250, 250, 248)
_INK: Colour = (32, 36, 44)
_QUIET: Colour = (120, 126, 136)
_BAND: Colour = (38, 50, 66)
_LIGHT: Colour = (236, 240, 245)
_AS_CLANG: Colour = (86, 132, 178)
_OTHERWISE: Colour = (226, 122, 44)
_ILLEGAL: Colour = (196, 40, 52)

_BLANK: Pixels = np.full((HEIGHT, WIDTH, 3), _PAPER, np.uint8)
_BLANK[:30] = _BAND


class EpisodePicture:
    """Draws the decisions of one environment's episodes; whatever it needs of earlier ones it is told as they come.

    Args:
        task: whose decisions these are.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.begin("")

    def begin(self, module: str) -> None:
        """Take note that an episode of a module has begun."""
        self._module = module
        self._decided: list[Colour] = []
        self._estimates: list[tuple[float, float]] = []
        self._last = ""
        self._outcome: Mapping[str, Any] | None = None

    def decide(self, decision: Decision, action: Any, *, illegal: bool = False) -> None:
        """Take note of a decision and what is done about it.

        Args:
            decision: the decision.
            action: the action that is taken.
            illegal: whether it takes the place of an illegal one.
        """
        task = self._task
        default = task.default_action(decision)
        same = bool(np.all(np.asarray(action) == np.asarray(default)))
        self._decided.append(_ILLEGAL if illegal else _AS_CLANG if same else _OTHERWISE)
        self._last = task.name_action(action)
        ours, clangs = self._estimates[-1] if self._estimates else (0.0, 0.0)
        self._estimates.append((ours + task.estimate(decision, action), clangs + task.estimate(decision, default)))

    def end(self, info: Mapping[str, Any]) -> None:
        """Take note that the episode is over.

        Args:
            info: its last info.
        """
        self._outcome = info

    def copy(self) -> EpisodePicture:
        """Return an independent copy."""
        twin = copy.copy(self)
        twin._decided, twin._estimates = self._decided.copy(), self._estimates.copy()
        return twin

    def draw(self, decision: Decision | None) -> Pixels:
        """Return the picture: a fresh uint8 array of shape (288, 480, 3).

        Args:
            decision: the decision that waits; None where the episode is over or never began.

        Raises:
            MissingExtraError: Pillow is not installed.
        """
        picture = _BLANK.copy()
        small, large = lettering(12), lettering(15)
        number = f"decision {len(self._decided)}" if decision is not None else f"{len(self._decided)} decisions"
        right = WIDTH - _MARGIN - large.length(number)
        where = f"{self._module}: {decision.context}" if decision is not None and decision.context else self._module
        large.write(picture, where or self._task.name, _MARGIN, 6, _LIGHT, room=right - 2 * _MARGIN)
        large.write(picture, number, right, 6, _LIGHT)
        if decision is not None:
            self._draw_decision(picture, small, decision)
        elif self._outcome is not None:
            self._draw_outcome(picture, small, large)
        else:
            small.write(picture, "no decision waits: call reset()", _MARGIN, 44, _QUIET)
        self._draw_history(picture, small)
        return picture

    def _draw_decision(self, picture: Pixels, small: Lettering, decision: Decision) -> None:
        task = self._task
        rows = task.describe(decision)
        if len(rows) > _ROWS:
            rows = [*rows[: _ROWS - 1], ("…", f"and {len(rows) - _ROWS + 1} more")]
        rows += [("", "")] * (_ROWS - len(rows))
        rows.append(("clang would", task.name_action(task.default_action(decision))))
        if self._decided:
            rows.append(("just decided", self._last))
        end = 0
        for top, (label, text) in zip(range(_TOP, HEIGHT, _LINE), rows, strict=False):
            small.write(picture, label, _MARGIN, top, _QUIET, room=_LABEL - 6)
            end = small.write(picture, text, _MARGIN + _LABEL, top, _INK)
        if self._decided:
            top = _TOP + _LINE * (len(rows) - 1) + 2
            picture[top : top + 10, end + 6 : end + 16] = self._decided[-1]

    def _draw_outcome(self, picture: Pixels, small: Lettering, large: Lettering) -> None:
        info = self._outcome or {}
        error = info.get("error")
        if error is not None:
            large.write(picture, "the compile failed", _MARGIN, 44, _ILLEGAL)
            small.write(picture, str(error["message"]).partition("\n")[0], _MARGIN, 70, _INK)
            return
        reduction = float(info.get("reduction", 0.0))
        colour = _AS_CLANG if reduction >= 0 else _OTHERWISE
        word = "less" if reduction >= 0 else "more"
        large.write(picture, f"{abs(reduction):.2%} {word} than clang alone", _MARGIN, 44, colour)
        top = 76
        for name in ("text_size", "spill_cost"):
            if name in info:
                top = self._draw_bars(picture, small, top, name, float(info[name]), float(info[f"baseline_{name}"]))

    @staticmethod
    def _draw_bars(picture: Pixels, small: Lettering, top: int, name: str, ours: float, clangs: float) -> int:
        most = max(ours, clangs) or 1.0
        small.write(picture, name, _MARGIN, top, _QUIET)
        for label, value, colour in (("now", ours, _OTHERWISE), ("clang", clangs, _AS_CLANG)):
            small.write(picture, label, _MARGIN + _LABEL - 20, top, _QUIET)
            left = _MARGIN + _LABEL + 24
            end = left + round(value / most * (WIDTH - left - 110))
            picture[top + 2 : top + 13, left:end] = colour
            small.write(picture, f"{value:,.6g}", end + 6, top, _INK)
            top += small.height + 4
        return top + 8

    def _draw_history(self, picture: Pixels, small: Lettering) -> None:
        """Draw one column for each decision, the last ones where there are more: as clang, otherwise, or illegal."""
        decided = self._decided[-_COLUMNS:]
        if not decided:
            return
        width = max(1, min(12, _COLUMNS // len(decided)))
        strip = np.array(decided, np.uint8).repeat(width, axis=0)
        picture[_STRIP_TOP:_STRIP_BOTTOM, _MARGIN : _MARGIN + len(strip)] = strip
        estimates = np.array(self._estimates[-_COLUMNS:])
        if estimates.any():
            self._draw_curves(picture, small, estimates, width)

    @staticmethod
    def _draw_curves(picture: Pixels, small: Lettering, estimates: npt.NDArray[np.float64], width: int) -> None:
        low, high = min(0.0, float(estimates.min())), max(0.0, float(estimates.max()))
        height = _CHART_BOTTOM - _CHART_TOP
        rows = (height - (estimates - low) / ((high - low) or 1.0) * height).round().repeat(width, axis=0)
        chart = picture[_CHART_TOP : _CHART_BOTTOM + 2, _MARGIN : _MARGIN + len(rows)]
        each = np.arange(height + 2)[:, None]
        for curve, colour in ((1, _AS_CLANG), (0, _OTHERWISE)):
            now = rows[:, curve]
            before = np.concatenate([now[:1], now[:-1]])
            chart[(each >= np.minimum(before, now)) & (each < np.maximum(before, now) + 2)] = colour
        ours, clangs = estimates[-1]
        text = f"cost so far as LLVM estimates it: {ours:,.0f}; by clang's choices: {clangs:,.0f}"
        small.write(picture, text, _MARGIN, _CHART_TOP - 18, _QUIET)
