"""Modules that are worked on until all are finished: those of earlier runs are told first, and not worked on again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.scheduling import Backlog, Lost
from mlgo_gym.storage.module_folder import ModuleFolder

Result = TypeVar("Result")


def each_module(
    store: ModuleFolder,
    names: Sequence[str],
    work: EnvironmentWork[str, Result],
    keep: Callable[[str, Result | Lost], dict[str, Any]],
    env: CompilerEnv,
    jobs: int | None,
    ray: str | None,
) -> Generator[dict[str, Any], None, None]:
    """Yield the line about each module as soon as it is on disk.

    Args:
        store: the folder of results.
        names: the modules.
        work: what is done with each.
        keep: puts the result of a module into the folder, and returns the line about it.
        env: the environment as it is on this machine.
        jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
        ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the work.

    Raises:
        MissingExtraError: Ray is not installed.
        MlgoError: there is no cluster.
    """
    done = store.done
    yield from (done[name] for name in names if name in done)
    waiting = [name for name in names if name not in done]
    if not waiting:
        return
    with work.workers(env, jobs, ray=ray) as running, closing(running.run(Backlog(waiting))) as results:
        for name, result in results:
            yield keep(name, result)
