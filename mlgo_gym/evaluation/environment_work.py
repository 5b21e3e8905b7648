"""Work that needs an environment, item by item: here, in processes of this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from mlgo_gym.corpus.shipping import pack_module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.abroad import EnvironmentAbroad
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.scheduling import Abroad, EachAlone, Shelf, Workers, workers
from mlgo_gym.scheduling.work import Item, Result


@dataclass(frozen=True, slots=True)
class EnvironmentWork(Generic[Item, Result]):
    """Work on items, one after the other, in an environment that each worker makes for itself.

    Attributes:
        environment: the environment's id.
        arguments: its arguments with the corpus, JSON-able.
        begin: returns what works on an item, in an environment; the shelf has the files of the policies where this is
            another machine than they lie on. It can be pickled where there are several jobs.
        policies: the specifications of the policies that are needed.
        needs: the name of the module that an item needs; by default an item is one.
    """

    environment: str
    arguments: Mapping[str, Any]
    begin: Callable[[CompilerEnv, Shelf | None], Callable[[Item], Result]]
    policies: Sequence[str] = ()
    needs: Callable[[Item], str] = str

    def workers(self, env: CompilerEnv, jobs: int | None = None, *, ray: str | None = None) -> Workers[Item, Result]:
        """Return those who do it.

        Args:
            env: the environment as it is on this machine, whose corpus has the modules.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: `jobs` is below 1, or there is no cluster.
        """
        return workers(self._start, jobs, ray=ray, abroad=partial(self._abroad, env))

    def _start(self, room: int) -> EachAlone[Item, Result]:
        del room
        return EachAlone(self.begin(make_environment(self.environment, self.arguments), None))

    def _abroad(self, env: CompilerEnv) -> Abroad[Item, Result]:
        there = EnvironmentAbroad.of(self.environment, self.arguments, env)
        start = partial(_start_there, there, self.begin)
        return Abroad(start, self.needs, partial(pack_module, env.corpus), there.goods(self.policies))


def _start_there(
    there: EnvironmentAbroad,
    begin: Callable[[CompilerEnv, Shelf | None], Callable[[Item], Result]],
    room: int,
    shelf: Shelf,
) -> EachAlone[Item, Result]:
    del room
    return EachAlone(begin(there.make(shelf), shelf))
