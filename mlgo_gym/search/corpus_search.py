"""A search over the modules of a corpus, in several processes, with results that survive a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.policies.loading import with_calls
from mlgo_gym.policies.shipping import unpack_policy
from mlgo_gym.scheduling import Backlog, Lost, Shelf
from mlgo_gym.search.algorithms import search_module
from mlgo_gym.search.recipe_making import make_recipe
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.recipe import Recipe, keep_recipe

Found: TypeAlias = tuple[SearchResult, Recipe | None]
"""What a search came to, and the recipe of a module that was made smaller, where recipes are wanted."""


@dataclass(frozen=True, slots=True)
class CorpusSearch:
    """What to search, and how.

    Attributes:
        environment: the environment's id.
        arguments: its arguments, JSON-able.
        algorithm: the name of the search.
        compiles: the most compiles per module; None is no limit.
        seconds: the most time per module; None is no limit.
        seed: seeds the random generator.
        names: the modules to search; all if empty.
        start: the policy whose decisions the search begins with.
        recipes: a folder for the recipe of each module that was made smaller, as `keep_recipe()` names it; None
            writes none.
    """

    environment: str
    arguments: Mapping[str, Any]
    algorithm: str
    compiles: int | None = None
    seconds: float | None = None
    seed: int = 0
    names: tuple[str, ...] = field(default=())
    start: str = "default"
    recipes: Path | None = None

    def modules(self) -> list[str]:
        """Return the modules with a decision, the largest first; or those of `names`.

        Raises:
            CorpusError: the corpus has no module of one of `names`.
            CompilerError: the compiler fails on a module when its decisions are counted.
        """
        env = make_environment(self.environment, self._arguments)
        names = [env.corpus.module(name).name for name in dict.fromkeys(self.names)] or env.corpus.names
        found = [name for name in names if env.decisions(env.corpus.module(name))]
        return sorted(found, key=lambda name: (-env.corpus.size(name), name))

    def run(
        self, output: Path | None = None, jobs: int | None = None, *, ray: str | None = None
    ) -> Iterator[SearchResult]:
        """Search every module and yield each result when it is there, those of an earlier run first.

        Args:
            output: a file of JSON lines; modules whose results are in it are not searched again.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the work.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: the file has results of another search, or there is no cluster.
        """
        header = self._header()
        done = _read(output, header) if output is not None else []
        yield from done
        waiting = [name for name in self.modules() if name not in {result.module for result in done}]
        lines = JsonLines(output) if output is not None else None
        try:
            if lines is not None and lines.is_empty:
                lines.append(header)
            for result in self._search(waiting, jobs, ray):
                if lines is not None:
                    lines.append(result.to_json())
                yield result
        finally:
            if lines is not None:
                lines.close()

    @property
    def _arguments(self) -> dict[str, Any]:
        """The arguments, with `calls` where the start wants them."""
        return with_calls(self.arguments, [self.start])

    def _header(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "arguments": dict(self.arguments),
            "algorithm": self.algorithm,
            "compiles": self.compiles,
            "seconds": self.seconds,
            "seed": self.seed,
            "start": self.start,
        }

    def _search(self, names: list[str], jobs: int | None, ray: str | None) -> Iterator[SearchResult]:
        if not names:
            return
        arguments = self._arguments
        env = make_environment(self.environment, arguments)
        work = EnvironmentWork(self.environment, arguments, self.begin, [self.start])
        with work.workers(env, jobs, ray=ray) as running, closing(running.run(Backlog(names))) as found:
            for name, each in found:
                if isinstance(each, Lost):
                    yield self._failure(name, str(each))
                    continue
                result, recipe = each
                if recipe is not None and self.recipes is not None:
                    module = env.corpus.module(name)
                    # Elsewhere, files that the flags name have other paths.
                    placed = replace(recipe, flags=env.compilation(module).flags) if module.inputs else recipe
                    keep_recipe(placed, self.recipes, module.bitcode.read_bytes())
                yield result

    def begin(self, env: CompilerEnv, shelf: Shelf | None = None) -> Callable[[str], Found]:
        """Return what searches a module by its name.

        Args:
            env: the environment.
            shelf: where the files of policies are, if this is another machine than they lie on.
        """
        here = self if shelf is None else replace(self, start=unpack_policy(self.start, shelf))
        return partial(here._one, env)

    def _failure(self, name: str, error: str) -> SearchResult:
        return SearchResult(name, self.algorithm, (), 0.0, 0.0, 0, 0.0, verified=False, error=error)

    def _one(self, env: CompilerEnv, name: str) -> Found:
        try:
            module = env.corpus.module(name)
            result = search_module(
                env,
                module,
                self.algorithm,
                compiles=self.compiles,
                seconds=self.seconds,
                seed=self.seed,
                start=self.start,
            )
            if self.recipes is not None and result.cost < result.baseline:
                return result, make_recipe(env, module, result.actions, result.compiles)
            return result, None
        except MlgoError as error:
            return self._failure(name, str(error)), None


def _read(path: Path, header: Mapping[str, Any]) -> list[SearchResult]:
    lines = read_json_lines(path)
    first = next(lines, None)
    if first is None:
        return []
    if first[1] != header:
        raise MlgoError(
            f"{path} holds results of another search: it has {first[1]}, this is {dict(header)}; choose another output"
        )
    try:
        results = [SearchResult.from_json(value) for _, value in lines]
    except (KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"{path} was to hold results of a search, and a line does not: {error!r}") from error
    return [result for result in results if result.error is None]
