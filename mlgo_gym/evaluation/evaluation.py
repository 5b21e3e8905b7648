"""Runs policies on the modules of a corpus."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from mlgo_gym.cache import key_of
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.parts import Part
from mlgo_gym.episode.argument_types import check_type
from mlgo_gym.episode.metrics.programs import ModulePrograms
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation.linking import LinkResult, ProgramResult, linked_sizes, run_programs
from mlgo_gym.evaluation.record import (
    DONE,
    FAILED,
    NO_DECISIONS,
    Assignment,
    Configuration,
    EpisodeRecord,
    ModuleFacts,
    bitcode_facts,
)
from mlgo_gym.evaluation.result import LINKS, PROGRAMS, EvaluationResult, ResultFolder, read_episodes, write_modules
from mlgo_gym.evaluation.runner import EvaluatedPolicies, RunnerSettings, episode_workers, is_plain_clang
from mlgo_gym.identity import identity_of, module_identity
from mlgo_gym.policies import Policy
from mlgo_gym.policies.loading import modules_trained_on
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution, WorkerFailure
from mlgo_gym.tasks.measurement import INSTRUCTIONS

Policies = str | Sequence[str] | Mapping[str, str | Network | Policy]
"""A specification, or several; or by name, specifications, networks and policies."""

Row = TypeVar("Row")


class Schedule:
    """The unfinished assignments, largest modules first.

    The first policy, one that decides, runs on every module before the other policies start. Then all baselines and all
    modules without decisions are known, and no two processes compile the same baseline. Episodes that failed in the
    existing `results` run again.
    """

    def __init__(
        self, policies: Sequence[str], modules: Iterable[str], corpus: Corpus, results: Iterable[EpisodeRecord]
    ) -> None:
        ordered = sorted(modules, key=lambda name: (-corpus.size(name), name))
        first = [(policy, module) for policy in policies[:1] for module in ordered]
        rest = [(policy, module) for module in ordered for policy in policies[1:]]
        results = list(results)
        done = {(result.policy, result.module) for result in results if result.status == DONE}
        self._without_decisions = {result.module for result in results if result.status == NO_DECISIONS}
        self._running = 0
        self._waiting = deque(
            Assignment(policy, module, corpus.project(module))
            for policy, module in (*first, *rest)
            if (policy, module) not in done
        )

    def __len__(self) -> int:
        """Return the number of waiting assignments."""
        return sum(assignment.module not in self._without_decisions for assignment in self._waiting)

    def popleft(self) -> Assignment:
        """Return the next assignment."""
        while (assignment := self._waiting.popleft()).module in self._without_decisions:
            pass
        self._running += 1
        return assignment

    def appendleft(self, assignment: Assignment) -> None:
        """Put an assignment without a result back at the front."""
        self._running -= 1
        self._waiting.appendleft(assignment)

    def finish(self, result: EpisodeRecord) -> None:
        """Record the result of an assignment; a module without decisions leaves the schedule."""
        self._running -= 1
        if result.status == NO_DECISIONS:
            self._without_decisions.add(result.module)

    @property
    def unfinished(self) -> int:
        """Upper bound of the assignments without a result: modules without decisions need fewer."""
        return len(self) + self._running


class Evaluation:
    """An evaluation that can be interrupted and resumed: `run()` runs it, `result` has the results so far.

    The arguments and errors are those of `evaluate()`.

    Attributes:
        configuration: Settings that the results depend on.
        evaluated: Environment and policies.
        schedule: Assignments without a result.
    """

    def __init__(
        self,
        environment: str,
        *,
        policies: Policies,
        corpus: str | Corpus = "builtin",
        split: Part | None = None,
        output: str | Path | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        seed: int = 0,
        limit: int | None = None,
    ) -> None:
        check_type("limit", limit, int | None)
        if limit is not None and limit < 1:
            raise MlgoError(f"expected limit ≥ 1, got {limit}; omit it to take all modules")
        check_type("seed", seed, int)
        check_type("env_kwargs", env_kwargs, Mapping[str, Any] | None)
        arguments = dict(env_kwargs or {})
        if arguments.get("scope", "module") != "module":
            raise MlgoError(f"expected scope='module' for an evaluation, got {arguments['scope']!r}; omit it")
        if isinstance(arguments.get("metric"), Mapping):
            raise MlgoError(f"expected one metric for an evaluation, got {arguments['metric']!r}; evaluate each alone")
        policies = [policies] if isinstance(policies, str) else policies
        named: dict[str, str | Network | Policy] = (
            dict(policies) if isinstance(policies, Mapping) else {spec: spec for spec in policies}
        )
        if not named:
            raise PolicyError("expected at least one policy, got none; `default` takes clang's own decisions")
        self._settings = RunnerSettings(environment, corpus, arguments, named, seed)
        self.evaluated = EvaluatedPolicies(self._settings)
        everything = self.evaluated.env.corpus
        part = everything if split is None else everything.split(split)
        modules = part.sample(limit, seed=seed) if limit is not None and limit < len(part) else list(part)
        levels, self._modules = _describe(everything, modules)
        configuration = self._configure(modules, levels, split, limit)
        self._results: dict[tuple[str, str], EpisodeRecord] = {}
        self._folder = None if output is None else ResultFolder(Path(output), configuration)
        self.configuration = configuration if self._folder is None else self._folder.configuration
        deciding_first = sorted(named, key=lambda name: is_plain_clang(named[name]))
        try:
            if self._folder is not None:
                write_modules(self._folder.path, self._modules.values())
            self.schedule = Schedule(deciding_first, self._modules, everything, self._episodes())
        except BaseException:
            self.close()
            raise

    def _configure(
        self, modules: Sequence[Module], levels: dict[str, dict[str, int]], split: str | None, limit: int | None
    ) -> Configuration:
        env, settings = self.evaluated.env, self._settings
        programs = env.setup.project_costs.get(INSTRUCTIONS)
        return Configuration(
            **identity_of(env, settings.environment, settings.arguments, settings.policies),
            metric=env.metric,
            corpus=settings.corpus if isinstance(settings.corpus, str) else settings.corpus.name,
            modules=len(modules),
            modules_digest=key_of(list(map(module_identity, modules))),
            levels=levels,
            seed=settings.seed,
            split=split,
            limit=limit,
            counter=programs.counter if isinstance(programs, ModulePrograms) else None,
            trained_on={
                name: trained
                for name, policy in settings.policies.items()
                if isinstance(policy, str) and (trained := modules_trained_on(policy, modules))
            },
        )

    def _episodes(self) -> Iterable[EpisodeRecord]:
        """Return the results so far; those on disk are not kept in memory."""
        return self._results.values() if self._folder is None else read_episodes(self._folder.path)

    @property
    def result(self) -> EvaluationResult:
        """The results so far, including earlier ones in the same output."""
        return EvaluationResult(self.configuration, tuple(self._episodes()), self._modules)

    def run(self, execution: Execution = Execution()) -> Generator[EpisodeRecord, None, None]:
        """Run the episodes and yield each result as soon as it is on disk, in no particular order.

        Closing the generator ends the workers.

        Args:
            execution: Where the episodes run. Default: this process.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: A process cannot start, or no cluster answers.
        """
        if not len(self.schedule):
            return
        with episode_workers(self.evaluated, execution) as running, closing(running.run(self.schedule)) as results:
            for assignment, result in results:
                if isinstance(result, WorkerFailure):
                    died = f"the worker process died: {result.how}"
                    error = {"kind": "worker", "message": died, "exit_status": result.status}
                    result = EpisodeRecord(*assignment, FAILED, error=error)
                self.add(result)
                yield result

    def add(self, episode: EpisodeRecord) -> None:
        """Add the result of an assignment that was taken from `schedule`."""
        if self._folder is not None:
            self._folder.append(episode)
        else:
            self._results[episode.policy, episode.module] = episode
        self.schedule.finish(episode)

    def link(self, *, trust_flags: bool = False) -> list[LinkResult]:
        """Return `linked_sizes()`; the output has `links.json`."""
        return self._written(LINKS, linked_sizes(self.evaluated, trust_flags=trust_flags))

    def run_programs(self, *, trust_flags: bool = False) -> list[ProgramResult]:
        """Return the results of `linking.run_programs()`; the output has `programs.json`."""
        return self._written(PROGRAMS, run_programs(self.evaluated, trust=trust_flags))

    def _written(self, name: str, rows: Iterable[Row]) -> list[Row]:
        results = list(rows)
        if self._folder is not None:
            self._folder.write_rows(name, results)
        return results

    def close(self) -> None:
        """Close the environment and release the output folder. Idempotent."""
        self.evaluated.close()
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> "Evaluation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def evaluate(
    environment: str,
    *,
    policies: Policies,
    corpus: str | Corpus = "builtin",
    split: Part | None = None,
    execution: Execution = Execution(),
    output: str | Path | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Callable[[EpisodeRecord], object] = lambda _: None,
) -> EvaluationResult:
    """Run policies on the modules of a corpus, and return their results.

    Args:
        environment: Id of the environment, such as `mlgo/Inline-v0`.
        policies: Specifications as `load_policy` takes them, and `clang:FLAGS` for plain clang with other flags; or
            a mapping from names to specifications, networks and policies.
        corpus: Corpus, as `open_corpus` takes it.
        split: Part of the corpus, such as `"test"`; see `Corpus.split()`. Default: all of it.
        execution: Where the episodes run, such as `Execution(jobs=2)` or `Execution(ray="HOST:6379")`; see
            docs/how_to/many_machines.md. Default: this process.
        output: Folder for the results. Finished episodes in it do not run again, failed ones do. Results of another
            identity are refused: other modules, arguments, policies, compiler or release, by their contents; and those
            of a policy without a specification. Default: results stay in memory.
        env_kwargs: Other arguments of the environment, JSON values; `{"compile_options": {"trust_flags": True}}` runs
            recorded flags without checking them.
        seed: Seed of random policies and of `limit`.
        limit: Number of modules to draw at random (≥ 1). Default: all.
        progress: Called with each result.

    Raises:
        MlgoError: The environment, the corpus or the output cannot be used, or a process cannot start.
        PolicyError: A policy is unknown, or does not fit the environment.
    """
    with Evaluation(
        environment,
        policies=policies,
        corpus=corpus,
        split=split,
        output=output,
        env_kwargs=env_kwargs,
        seed=seed,
        limit=limit,
    ) as evaluation:
        with closing(evaluation.run(execution)) as episodes:
            for episode in episodes:
                progress(episode)
        return evaluation.result


def _describe(corpus: Corpus, modules: Sequence[Module]) -> tuple[dict[str, dict[str, int]], dict[str, ModuleFacts]]:
    """Return the number of modules per optimisation level of each corpus, and the facts about each module."""
    members = corpus.name.split(",")
    counts: dict[str, Counter[str]] = {}
    facts: dict[str, ModuleFacts] = {}
    for module in modules:
        in_bitcode = bitcode_facts(module)
        facts[module.name] = ModuleFacts.of(module, in_bitcode)
        member = module.name.partition("/")[0] if len(members) > 1 else corpus.name
        counts.setdefault(member, Counter())[in_bitcode.level] += 1
    return {member: dict(levels) for member, levels in counts.items()}, facts
