"""Modules that are worked on until all are finished: those of earlier runs are told first, and not worked on again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from mlgo_gym.scheduling import Backlog, Lost, Workers
from mlgo_gym.storage.module_folder import ModuleFolder

Result = TypeVar("Result")


def each_module(
    store: ModuleFolder,
    names: Sequence[str],
    begin: Callable[[], Workers[str, Result]],
    keep: Callable[[str, Result | Lost], dict[str, Any]],
) -> Generator[dict[str, Any], None, None]:
    """Yield the line about each module as soon as it is on disk.

    Args:
        store: the folder of results.
        names: the modules.
        begin: returns who works on those that are not finished.
        keep: puts the result of a module into the folder, and returns the line about it.
    """
    done = store.done
    yield from (done[name] for name in names if name in done)
    waiting = [name for name in names if name not in done]
    if not waiting:
        return
    with begin() as running, closing(running.run(Backlog(waiting))) as results:
        for name, result in results:
            yield keep(name, result)
