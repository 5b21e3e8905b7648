"""The search of one module, its recipe, and the resumable search of a corpus."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.compiler.process import STACK_USAGE_FLAGS
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.flags import without_flags
from mlgo_gym.corpus.link_view import as_built, merged_functions
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.episode.attribution.recipe import Recipe, comparable_recipe, keep_recipe, recipe_path
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.identity import identity_of, module_identity, refuse_other_identity
from mlgo_gym.make_env import EnvironmentWork
from mlgo_gym.policies.loading import unpack_policy
from mlgo_gym.scheduling import Execution, FileStore, WorkerFailure
from mlgo_gym.search.bundles import BundleSearch
from mlgo_gym.search.search_space import Budget, SearchSpace, portfolio_names, search_environment
from mlgo_gym.storage.json_files import JsonLines, read_json_lines


def make_recipe(
    env: CompilerEnv, module: Module, found: "SearchResult | None", start: str = "default", seed: int = 0
) -> Recipe:
    """Return the recipe of a search result, from a new compile that takes its actions.

    A recipe of the link view is of the module that a build compiles, with the actions of the same decision sites. Clang
    drops some functions there that their owner keeps in the view. If the linker merges functions, the start policy
    decides in these, and the result is used also if it is not better: only equal functions are merged.

    Args:
        env: The environment; it gives compiler, flags and metric.
        module: The module that was searched.
        found: The result. None, and a result that is not verified or not better, give a recipe without actions.
        start, seed: As in the search.

    Raises:
        MlgoError: The number of decisions differs.
        CompilerError: The compile failed.
    """
    space = SearchSpace(env, module, Budget(), start, seed)
    searched, module = env.compilation(module), as_built(module)
    compilation, task = env.compilation(module), env.task
    baseline = measure_baseline(compilation, env.setup.timeout, optimization_record=task.optimization_record)
    assert baseline.sizes is not None, "a plain compile makes an object"
    text, by_site = baseline.sizes.text, dict[DecisionSite, int]()
    if found is not None and (found.improved or (found.verified and merged_functions(module))):
        remaining = iter(found.actions)
        compiled = run_inline_compile(searched, task, lambda _: next(remaining, 0), env.setup.timeout)
        by_site = {decision.site: decision.answer for decision in compiled.decisions}
        if tuple(by_site.values()) != found.actions:
            raise MlgoError(
                f"expected {len(found.actions)} decisions, got {len(by_site)}; the module or its flags changed"
            )
        if searched.module.digest() != module.digest():
            actions = by_site
            for decisions in space.merged_decisions().values():
                actions.update(decisions)
            compiled = run_inline_compile(
                compilation,
                task,
                lambda decision: actions.get(decision.site, task.default_action(decision)),
                env.setup.timeout,
            )
            by_site = {decision.site: decision.answer for decision in compiled.decisions}
        text = compiled.text
    metric = recipe_metric(env)
    cost = None
    if found is not None and metric != "text":
        cost = (found.cost if by_site else found.baseline), found.baseline
    return Recipe(
        module=module.name,
        digest=module.digest(),
        clang=env.toolchain.version_text,
        flags=recipe_flags(env, module),
        text=text,
        baseline_text=baseline.sizes.text,
        actions=by_site,
        compiles=0 if found is None else found.compiles,
        metric=metric,
        cost=cost,
    )


def recipe_metric(env: CompilerEnv) -> str:
    """Return the metric of an environment as a recipe names it: of several metrics, their weights as JSON."""
    weights = env.setup.weights
    return env.metric if len(weights) == 1 else json.dumps(weights, sort_keys=True)


def recipe_flags(env: CompilerEnv, module: Module) -> tuple[str, ...]:
    """Return the flags of a compile of the whole module, without those that only measure."""
    return without_flags(env.compilation(module).flags, STACK_USAGE_FLAGS[:1])


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best actions found in a module, verified by a replay.

    Attributes:
        module: Name of the module.
        actions: Action of each decision.
        cost: Cost of the actions by the environment's metric.
        baseline: Cost of clang's own heuristic.
        compiles: Number of compiles, without the replay.
        seconds: Duration of the search, without the replay.
        verified: Whether the replay had the same cost.
        error: Message of the error that ended the search; None without one.
        improvements: Index (from 1) and cost of each compile that cost less than all before.
        failed: Number of failed compiles.
    """

    module: str
    actions: tuple[int, ...]
    cost: float
    baseline: float
    compiles: int
    seconds: float
    verified: bool
    error: str | None = None
    improvements: tuple[tuple[int, float], ...] = ()
    failed: int = 0

    @property
    def reduction(self) -> float:
        """Relative reduction of the cost: 0.02 is 2 % less."""
        return (self.baseline - self.cost) / max(self.baseline, 1.0)

    @property
    def improved(self) -> bool:
        """Whether the actions cost less than clang's own, and the replay verified that."""
        return self.verified and self.cost < self.baseline

    def cost_after(self, compiles: int) -> float:
        """Return the least cost within a number of compiles; the baseline if none improved."""
        return min((cost for index, cost in self.improvements if index <= compiles), default=self.baseline)


def search_module(
    env: CompilerEnv,
    module: Module,
    *,
    compiles: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    start: str = "default",
) -> SearchResult:
    """Search the actions of a module with the least cost, and verify them by a replay.

    The replay is a new compile; with `fork_resets` it may be a fork of a compile at its first decision.

    Args:
        env: The environment; it gives compiler, flags and metric, and is not stepped.
        module: The module.
        compiles, seconds: Limits of the budget; None is unlimited.
        seed: Seed of the random generator, and of random policies.
        start: The policy to start from.

    Raises:
        MlgoError: The environment is not one of inlining, its metric has no value for each function, or the policy
            does not fit it.
        CorpusError: The module has no decision.
        CompilerError: The first compile failed; later failures are counted.
    """
    budget = Budget(compiles, seconds)
    space = SearchSpace(env, module, budget, start, seed)
    actions, cost, baseline = BundleSearch(space, seed).run()
    compiles, seconds = budget.spent, budget.seconds
    return SearchResult(
        module=module.name,
        actions=actions,
        cost=cost,
        baseline=baseline,
        compiles=compiles,
        seconds=seconds,
        verified=space.replay(actions) == cost,
        improvements=tuple(space.improvements),
        failed=space.failed,
    )


_Searched = tuple[SearchResult, Recipe | None]


@dataclass(frozen=True, slots=True)
class CorpusSearch:
    """A search over the modules of a corpus.

    Attributes:
        environment: Id of the environment.
        arguments: Arguments of the environment, JSON-able.
        compiles: Maximum number of compiles per module (≥ 1). Default: no limit.
        seconds: Maximum time per module, in seconds. Default: no limit.
        seed: Seed of the random generator, and of random policies.
        names: Modules to search. Default: all.
        start: Policy to start from.
        recipes: Folder for a recipe of each module; without decisions if none cost less than clang's own. Default: none
            is written.
    """

    environment: str
    arguments: Mapping[str, Any]
    compiles: int | None = None
    seconds: float | None = None
    seed: int = 0
    names: tuple[str, ...] = ()
    start: str = "default"
    recipes: Path | None = None

    def modules(self) -> list[str]:
        """Return the modules with decisions, the largest first.

        Raises:
            CorpusError: The corpus lacks one of `names`.
            CompilerError: The compiler fails on a module when its decisions are counted.
        """
        env, _ = self._environment()
        names = [env.corpus.module(name).name for name in dict.fromkeys(self.names)] or env.corpus.names
        decided = [name for name in names if env.decisions(env.corpus.module(name))]
        return sorted(decided, key=lambda name: (-env.corpus.size(name), name))

    def run(self, output: Path | None = None, execution: Execution = Execution()) -> Iterator[SearchResult]:
        """Search each module, and yield the results as they finish; results of an earlier run come first.

        Args:
            output: File of JSON lines for the results. Modules with a result in it are not searched again unless their
                contents changed.
            execution: Where the search runs. Default: this process.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: The file has results of another search, or the cluster is unreachable.
        """
        names = self.modules()
        if output is None:
            yield from self._search(names, execution)
            return
        env, arguments = self._environment()
        policies = {name: name for name in (self.start, *portfolio_names(env))}
        header = identity_of(env, self.environment, arguments, policies)
        header |= {name: getattr(self, name) for name in ("start", "compiles", "seconds", "seed")}
        identities = {name: module_identity(env.corpus.module(name)) for name in names}
        with closing(JsonLines(output)) as lines:
            if lines.is_empty:
                if output.stat().st_size:
                    raise MlgoError(f"expected search results in {output}, got another file; choose another output")
                lines.append(header)
            recorded, found = read_results(output)
            refuse_other_identity(output, recorded, header)
            done = [found[name, identity] for name, identity in identities.items() if (name, identity) in found]
            for result in done:
                module = as_built(env.corpus.module(result.module))
                if self.recipes and result.verified and not recipe_path(self.recipes, module.digest()).exists():
                    self._keep(env, make_recipe(env, env.corpus.module(result.module), result, self.start, self.seed))
                yield result
            finished = {result.module for result in done}
            for result in self._search([name for name in names if name not in finished], execution):
                lines.append({**asdict(result), "identity": identities[result.module]})
                yield result

    def _environment(self) -> tuple[CompilerEnv, dict[str, Any]]:
        return search_environment(self.environment, self.arguments, self.start)

    def _keep(self, env: CompilerEnv, recipe: Recipe) -> None:
        assert self.recipes is not None, "a recipe is made for a folder"
        module = as_built(env.corpus.module(recipe.module))
        # A remote worker has other paths for the files in the flags.
        local = replace(recipe, flags=recipe_flags(env, module)) if module.inputs else recipe
        keep_recipe(local, self.recipes, module.bitcode.read_bytes())

    def _search(self, names: list[str], execution: Execution) -> Iterator[SearchResult]:
        if not names:
            return
        env, arguments = self._environment()
        if self.recipes is not None:
            self.recipes.mkdir(parents=True, exist_ok=True)
            for name in names:
                path = recipe_path(self.recipes, as_built(env.corpus.module(name)).digest())
                comparable_recipe(path, recipe_metric(env))
        work = EnvironmentWork(self.environment, arguments, self._start, [self.start])
        with work.workers(env, execution) as workers, closing(workers.run(deque(names))) as results:
            for name, found in results:
                if isinstance(found, WorkerFailure):
                    yield self._failure(name, str(found))
                    continue
                result, recipe = found
                if recipe is not None:
                    self._keep(env, recipe)
                yield result

    def _start(self, env: CompilerEnv, store: FileStore | None) -> Callable[[str], _Searched]:
        return partial(replace(self, start=unpack_policy(self.start, store))._one, env)

    def _failure(self, name: str, error: str) -> SearchResult:
        return SearchResult(name, (), 0.0, 0.0, 0, 0.0, verified=False, error=error)

    def _one(self, env: CompilerEnv, name: str) -> _Searched:
        limits: dict[str, Any] = {"compiles": self.compiles, "seconds": self.seconds}
        try:
            module = env.corpus.module(name)
            result = search_module(env, module, seed=self.seed, start=self.start, **limits)
            kept = self.recipes is not None and result.verified
            return result, make_recipe(env, module, result, self.start, self.seed) if kept else None
        except MlgoError as error:
            return self._failure(name, str(error)), None


def read_results(path: Path) -> tuple[dict[str, Any], dict[tuple[str, str], SearchResult]]:
    """Return the identity of a search, and its results without an error, by the name and the identity of the module.

    Raises `MlgoError` if the file has no results of a search.
    """
    lines = read_json_lines(path)
    _, header = next(lines)
    found: dict[tuple[str, str], SearchResult] = {}
    try:
        for _, value in lines:
            identity, value["actions"] = value.pop("identity"), tuple(value["actions"])
            value["improvements"] = tuple((index, cost) for index, cost in value["improvements"])
            result = SearchResult(**value)
            if result.error is None:
                found[result.module, identity] = result
        return dict(header), found
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"expected search results in {path}, got {error!r}; choose another output") from error
