"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

BETWEEN_LINES = 5.0
"""The seconds between two lines where standard error is no terminal: what takes less says nothing."""


@contextmanager
def progress_over(total: int | None, title: str) -> Iterator[Callable[[], None]]:
    """Show how far the block is, and give a function that moves it on by one step.

    Args:
        total: how many steps there are; None if that is not known.
        title: what is being done.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, total, title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)


def _lines(console: Console, total: int | None, title: str) -> Callable[[], None]:
    done, last = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if now - last >= BETWEEN_LINES:
            last = now
            console.print(f"{title}: {done}" + ("" if total is None else f" of {total}"), highlight=False)

    return advance
