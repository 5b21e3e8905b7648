"""Policies against the modules of a corpus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.sampling import Part
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.contestants import Contestants, RunnerSettings, is_plain_clang
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.linking import LinkedEvaluation, LinkedSize
from mlgo_gym.evaluation.module_facts import ModuleFacts, bitcode_facts, write_modules
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.result_folder import ResultFolder
from mlgo_gym.evaluation.schedule import Schedule
from mlgo_gym.evaluation.workers import Episodes, episodes_abroad, result_of
from mlgo_gym.policies import Policy
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.scheduling import workers
from mlgo_gym.storage.cache import key_of

Policies = Sequence[str] | Mapping[str, str | Policy]
"""Specifications; or these, or policies, by the names they are to have."""

_MEASURES = {"text": "text_size", "llvm-size": "llvm_size", "object": "object_size"}
"""The measures that go by another name as a metric."""

_NOT_COMPARED = ("clang", "memory_limit", "cpu_limit")
"""The arguments on which no result depends but a failure, which is tried again; of the compiler, the version counts."""

ENVS = 2
"""How many episodes each process runs at once, unless the user says otherwise."""


class Evaluation:
    """An evaluation that is being made; `run()` makes it, and `result` is what there is so far.

    Args:
        environment: the environment's id, for instance `mlgo/Inline-v0`.
        policies: specifications as `load_policy` takes them, and `clang:FLAGS` for a plain clang with other flags; or
            policies by name.
        corpus: what `open_corpus` takes.
        split: take a part of the modules alone, such as `"test"`, as `Corpus.split()` has them.
        output: the folder for the results; what is there already is not made again, but for failures. Without it
            results are only kept in memory.
        env_kwargs: further arguments of the environment.
        seed: what random policies and `limit` depend on.
        limit: take so many of the modules, drawn at random.

    Attributes:
        remaining: how many episodes are still to be run, at most: modules without a decision need fewer.

    Raises:
        MlgoError: the environment, the corpus or the output cannot be used so.
        PolicyError: a policy cannot be found, or does not fit the environment.
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
        arguments = dict(env_kwargs or {})
        if arguments.get("scope", "module") != "module":
            raise MlgoError("an evaluation goes through a corpus module by module; leave scope='function' out")
        named: dict[str, str | Policy] = (
            dict(policies) if isinstance(policies, Mapping) else {spec: spec for spec in policies}
        )
        if not named:
            raise PolicyError("an evaluation needs at least one policy; `default` is clang's own heuristic")
        self._settings = RunnerSettings(environment, corpus, arguments, named, seed)
        self._contestants = Contestants(self._settings)
        everything = self._contestants.env.corpus
        modules = _choose(everything if split is None else everything.split(split), limit, seed)
        # In one go: what a module's bitcode says is read once for both.
        levels, self._modules = _describe(everything, modules)
        configuration = replace(self._configure(modules, split, levels), limit=limit)
        self._results: dict[tuple[str, str], EpisodeResult] = {}
        """What has no folder to be in."""
        self._folder = None if output is None else ResultFolder(Path(output), configuration)
        self._configuration = configuration if self._folder is None else self._folder.configuration
        corpus = self._contestants.env.corpus
        deciding_first = sorted(named, key=lambda name: is_plain_clang(named[name]))
        names = [module.name for module in modules]
        try:
            if output is not None:
                write_modules(Path(output), self._modules.values())
            there = () if self._folder is None else self._folder.episodes
            self._schedule = Schedule(deciding_first, names, corpus.size, corpus.project, there)
        except BaseException:
            self.close()
            raise

    def _configure(
        self, modules: Sequence[Module], split: str | None, levels: dict[str, dict[str, int]]
    ) -> Configuration:
        env, settings = self._contestants.env, self._settings
        return Configuration(
            environment=settings.environment,
            arguments=_as_json(
                {name: value for name, value in settings.arguments.items() if name not in _NOT_COMPARED}
            ),
            metric=_MEASURES.get(env.metric, env.metric),
            corpus=env.corpus.name,
            modules=len(modules),
            modules_digest=key_of([[module.name, module.digest(), module.flags] for module in modules]),
            levels=levels,
            split=split,
            clang=env.toolchain.version_text,
            mlgo_gym=mlgo_gym.__version__,
            seed=settings.seed,
            policies={
                name: policy_identity(policy) if isinstance(policy, str) else type(policy).__qualname__
                for name, policy in settings.policies.items()
            },
        )

    @property
    def remaining(self) -> int:
        """How many episodes have no result yet."""
        return self._schedule.unfinished

    @property
    def result(self) -> EvaluationResult:
        """What there is so far, also that of earlier evaluations in the same output."""
        episodes = self._results.values() if self._folder is None else self._folder.episodes
        return EvaluationResult(self._configuration, tuple(episodes), self._modules)

    def run(
        self, jobs: int | None = None, envs: int = ENVS, *, ray: str | None = None
    ) -> Generator[EpisodeResult, None, None]:
        """Run the episodes, and give each result as soon as it is on disk, in no particular order.

        Processes are ended when the generator is closed.

        Args:
            jobs: how many processes run episodes; with 1 it is this one. By default 1, and with `ray` one for each
                processor of the cluster.
            envs: how many episodes each process runs at once.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that runs the episodes.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: `jobs` or `envs` is below 1, a process cannot start, or there is no cluster.
        """
        for name, value in (("jobs", jobs), ("envs", envs)):
            if value is not None and value < 1:
                raise MlgoError(f"{name} was to be at least 1, found {value}")
        episodes = Episodes(self._settings, self._contestants if jobs in (None, 1) else None)
        abroad = partial(episodes_abroad, self._contestants)
        if not len(self._schedule):
            return
        with (
            workers(episodes, jobs, envs, ray=ray, abroad=abroad) as running,
            closing(running.run(self._schedule)) as results,
        ):
            for assignment, result in results:
                episode = result_of(assignment, result)
                if self._folder is not None:
                    self._folder.append(episode)
                else:
                    self._results[episode.policy, episode.module] = episode
                self._schedule.note(episode)
                yield episode

    def link(self, *, trust: bool = False) -> Generator[LinkedSize, None, None]:
        """Do the links of the recorded build with the objects of plain clang and of each policy; give each file's size.

        With an `output`, all of them are written to `links.json` in it.

        Args:
            trust: whether a link is done whatever its arguments are; else only with those that shape its result.

        Raises:
            MlgoError: the corpus has no links.
        """
        rows = []
        for row in LinkedEvaluation(self._contestants, trust=trust).run():
            rows.append(row)
            yield row
        if self._folder is not None:
            self._folder.write_links(rows)

    def close(self) -> None:
        """Close the environment and release the output folder. Idempotent."""
        self._contestants.close()
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Evaluation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def evaluate(
    environment: str,
    *,
    policies: Policies,
    corpus: str | Corpus = "builtin",
    split: Part | None = None,
    jobs: int | None = None,
    envs: int = ENVS,
    ray: str | None = None,
    output: str | Path | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    trust: bool = False,
    progress: Callable[[EpisodeResult], object] = lambda _: None,
) -> EvaluationResult:
    """Run policies on the modules of a corpus, and return what they achieved.

    In a script, processes (`jobs`) need the call to be below `if __name__ == "__main__":`.

    Args:
        environment: the environment's id, for instance `mlgo/Inline-v0`.
        policies: specifications as `load_policy` takes them, and `clang:FLAGS` for a plain clang with other flags; or
            policies by name.
        corpus: what `open_corpus` takes.
        split: take a part of the modules alone, such as `"test"`, as `Corpus.split()` has them.
        jobs: how many processes run episodes; with 1 it is this one. By default 1, and with `ray` one for each
            processor of the cluster.
        envs: how many episodes each process runs at once: while the clang of one computes, others are answered.
        ray: the address of a Ray cluster whose machines run the episodes: `HOST:PORT`, `auto`, or `local` for one that
            is started for the call; see docs/scale.md.
        output: the folder for the results; what is there already is not made again, but for failures.
        env_kwargs: further arguments of the environment.
        seed: what random policies and `limit` depend on.
        limit: take so many of the modules, drawn at random.
        trust: run the recorded flags of the corpus whatever they are; the environment's argument of that name.
        progress: called with each result.

    Raises:
        MlgoError: the environment, the corpus or the output cannot be used so, or a process cannot start.
        PolicyError: a policy cannot be found, or does not fit the environment.
    """
    with Evaluation(
        environment,
        policies=policies,
        corpus=corpus,
        split=split,
        output=output,
        env_kwargs={**(env_kwargs or {}), **({"trust": True} if trust else {})},
        seed=seed,
        limit=limit,
    ) as evaluation:
        with closing(evaluation.run(jobs, envs, ray=ray)) as episodes:
            for episode in episodes:
                progress(episode)
        return evaluation.result


def _choose(corpus: Corpus, limit: int | None, seed: int) -> list[Module]:
    if limit is not None and limit < 1:
        raise MlgoError(f"limit was to be at least 1, found {limit}")
    if limit is not None and (corpus.endless or limit < len(corpus)):
        return corpus.sample(limit, seed=seed)
    if corpus.endless:
        raise MlgoError(f"the corpus {corpus.name} has no end; give a limit")
    return list(corpus)


def _as_json(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as they come back from a JSON file, in which there are no tuples."""
    try:
        result: dict[str, Any] = json.loads(json.dumps(arguments))
    except TypeError as error:
        raise MlgoError(f"the arguments of an evaluation are JSON values, found {arguments}: {error}") from error
    return result


def _describe(corpus: Corpus, modules: Sequence[Module]) -> tuple[dict[str, dict[str, int]], dict[str, ModuleFacts]]:
    """Return how many modules of each corpus have functions of which optimisation level, and the facts of each."""
    members = corpus.name.split(",")
    counts: dict[str, Counter[str]] = {}
    facts: dict[str, ModuleFacts] = {}
    for module in modules:
        facts[module.name] = ModuleFacts.of(module)
        member = module.name.partition("/")[0] if len(members) > 1 else corpus.name
        counts.setdefault(member, Counter())[bitcode_facts(module).level] += 1
    return {member: dict(levels) for member, levels in counts.items()}, facts
