"""A search over the modules of a corpus, in several processes, with results that survive a kill."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.parent import end_with_parent
from mlgo_gym.search.algorithms import search_module
from mlgo_gym.search.recipe_making import make_recipe
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.recipe import keep_recipe


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
        names: the modules to search; all, where there are none.
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
            CompilerError: the compiler fails on a module when its decisions are counted.
        """
        env = make_environment(self.environment, self.arguments)
        names = [module.name for module in env.corpus if not self.names or module.name in self.names]
        found = [name for name in names if env.decisions(env.corpus.module(name))]
        return sorted(found, key=lambda name: (-env.corpus.size(name), name))

    def run(self, output: Path | None = None, jobs: int = 1) -> Iterator[SearchResult]:
        """Search every module and yield each result as it is there, those of an earlier run first.

        Args:
            output: a file of JSON lines; modules whose results are in it are not searched again.
            jobs: how many processes.

        Raises:
            MlgoError: the file has results of another search.
        """
        header = self._header()
        done = _read(output, header) if output is not None else []
        yield from done
        waiting = [name for name in self.modules() if name not in {result.module for result in done}]
        lines = JsonLines(output) if output is not None else None
        try:
            if lines is not None and lines.is_empty:
                lines.append(header)
            for result in self._search(waiting, jobs):
                if lines is not None:
                    lines.append(result.to_json())
                yield result
        finally:
            if lines is not None:
                lines.close()

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

    def _search(self, names: list[str], jobs: int) -> Iterator[SearchResult]:
        if jobs == 1:
            env = make_environment(self.environment, self.arguments)
            for name in names:
                yield self._one(env, name)
            return
        # A worker that is killed takes its compilers with it: each hangs on a pipe of its host.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare, initargs=(self,)) as pool:
            futures = [pool.submit(_work, name) for name in names]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

    def _one(self, env: CompilerEnv, name: str) -> SearchResult:
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
                recipe = make_recipe(env, module, result.actions, result.compiles)
                keep_recipe(recipe, self.recipes, module.bitcode.read_bytes())
            return result
        except MlgoError as error:
            return SearchResult(name, self.algorithm, (), 0.0, 0.0, 0, 0.0, verified=False, error=str(error))


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


_worker: tuple[CorpusSearch, CompilerEnv] | None = None


def _prepare(search: CorpusSearch) -> None:
    global _worker
    end_with_parent()
    _worker = (search, make_environment(search.environment, search.arguments))


def _work(name: str) -> SearchResult:
    assert _worker is not None
    search, env = _worker
    return search._one(env, name)
