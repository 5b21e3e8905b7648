"""Progress on standard error: a bar on a terminal, a line every few seconds elsewhere.

Both show the title, the steps, the rate, the remaining time, and the result so far.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from mlgo_gym.cli.interface import echo
from mlgo_gym.cli.terminal import escape_control_characters

LINE_SECONDS = 5.0
"""Interval between two lines, in seconds; shorter work prints none."""


class Progress:
    """Displayed progress of titled work: each call of the instance advances by one step."""

    def __init__(self, total: int | None, title: str, display: Callable[["Progress"], None]) -> None:
        self.total, self.title, self.done = total, title, 0
        self._display, self._result, self._started = display, "", time.monotonic()

    def __call__(self, result: str = "") -> None:
        """Advance by one step; an empty result is unchanged."""
        self.at(self.done + 1, result=result)

    def at(self, done: int, total: int | None = None, title: str = "", result: str = "") -> None:
        """Set the number of finished steps; None and empty texts change nothing, and a new title restarts the clock."""
        if title and title != self.title:
            self.title, self._result, self._started = title, "", time.monotonic()
        self.done, self.total = done, self.total if total is None else total
        self._result = result or self._result
        self._display(self)

    def __str__(self) -> str:
        """Return steps, rate, remaining time and result, such as `4 of 9, 120.0/min, 0:00:03 left`."""
        parts = [f"{self.done:,}" + ("" if self.total is None else f" of {self.total:,}")]
        seconds = time.monotonic() - self._started
        if self.done and seconds > 0:
            parts.append(f"{60 * self.done / seconds:,.1f}/min")
            if self.total is not None and self.done < self.total:
                parts.append(f"{timedelta(seconds=round((self.total - self.done) * seconds / self.done))} left")
        return ", ".join(parts) + (f"; {self._result}" if self._result else "")


@contextmanager
def progress_over(total: int | None, title: str) -> Iterator[Progress]:
    """Show the progress of the block, whose number of steps may be unknown."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def print_line(progress: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS:
                last = time.monotonic()
                echo(f"{progress.title}: {progress}", err=True)

        yield Progress(total, title, print_line)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[text]}"))
    # Rich prints other output above the bar; a pipe gets it unchanged.
    with Bars(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bars:

        def shown(text: str) -> str:
            return escape(escape_control_characters(text))

        task = bars.add_task(shown(title), total=total, text="")

        def draw(progress: Progress) -> None:
            description, text = shown(progress.title), shown(str(progress))
            bars.update(task, completed=progress.done, total=progress.total, description=description, text=text)

        yield Progress(total, title, draw)
