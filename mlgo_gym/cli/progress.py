"""Progress on standard error: a bar on a terminal, a line now and then elsewhere.

Both say what is done, how far it is and how fast, how long it will take, and what has come out so far.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from mlgo_gym.cli.output import NamingConsole

BETWEEN_LINES = 5.0
"""The seconds between two lines where standard error is no terminal: what takes less says nothing."""


class Progress(Protocol):
    """How far something is."""

    def __call__(self, result: str = "") -> None:
        """Move on by one step.

        Args:
            result: what has come out so far, in a few words; empty: what it was before.
        """

    def at(self, done: int, total: int | None = None, title: str = "", result: str = "") -> None:
        """Be so far.

        Args:
            done: how many steps are done.
            total: of how many; None: of as many as before.
            title: what is being done now; another one begins anew. Empty: what it was before.
            result: as above.
        """


@contextmanager
def progress_over(total: int | None, title: str) -> Iterator[Progress]:
    """Show how far the block is, and give what moves it on.

    Args:
        total: how many steps there are; None if that is not known.
        title: what is being done.
    """
    console = NamingConsole(stderr=True)
    if not console.is_terminal:
        yield _Lines(console, total, title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[said]}"))
    # What is printed in between goes above the bar; into a pipe it goes as it is.
    with Bars(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bars:
        yield _Bar(bars, total, title)


class _Count:
    """Counts steps, and says so."""

    def __init__(self, total: int | None, title: str) -> None:
        self.total = total
        self.title = title
        self.done = 0
        self.result = ""
        self._started = time.monotonic()

    def __call__(self, result: str = "") -> None:
        self.at(self.done + 1, result=result)

    def at(self, done: int, total: int | None = None, title: str = "", result: str = "") -> None:
        if title and title != self.title:
            self.title, self.result, self._started = title, "", time.monotonic()
        self.done = done
        self.total = self.total if total is None else total
        self.result = result or self.result
        self._show(time.monotonic())

    def _show(self, now: float) -> None:
        raise NotImplementedError

    def said(self, now: float) -> str:
        """Return how far it is, how fast, how long it will take, and what came out: `4 of 9, 2.0/s, 0:00:03 left`."""
        parts = [f"{self.done:,}" + ("" if self.total is None else f" of {self.total:,}")]
        seconds = now - self._started
        if self.done and seconds > 0:
            rate = self.done / seconds
            parts.append(
                f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min" if rate >= 1 / 60 else f"{3600 * rate:.1f}/h"
            )
            if self.total is not None and self.done < self.total:
                parts.append(f"{timedelta(seconds=round((self.total - self.done) / rate))} left")
        return ", ".join(parts) + (f"; {self.result}" if self.result else "")


class _Bar(_Count):
    def __init__(self, bars: Bars, total: int | None, title: str) -> None:
        super().__init__(total, title)
        self._bars = bars
        self._task = bars.add_task(escape(title), total=total, said="")

    def _show(self, now: float) -> None:
        self._bars.update(
            self._task,
            completed=self.done,
            total=self.total,
            description=escape(self.title),
            said=escape(self.said(now)),
        )


class _Lines(_Count):
    def __init__(self, console: Console, total: int | None, title: str) -> None:
        super().__init__(total, title)
        self._console = console
        self._last = self._started

    def _show(self, now: float) -> None:
        if now - self._last >= BETWEEN_LINES:
            self._last = now
            self._console.print(f"{self.title}: {self.said(now)}", highlight=False, markup=False, soft_wrap=True)
