"""The environment of an evaluation, its policies, their objects, and plain compiles with other flags."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.record import DONE, Assignment, EpisodeRecord, compile_metrics
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import PLAIN_CLANG, plain_clang_flags, with_callee_features
from mlgo_gym.policies.protocol import is_batched
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS, Measurement
from mlgo_gym.tasks.task import read_action

PLAIN = "plain clang"
"""Policy name of clang without a policy."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """The settings from which a process makes an environment and policies.

    Attributes:
        environment: Id of the environment.
        corpus: Corpus, as `open_corpus` takes it.
        arguments: Other arguments of the environment.
        policies: Policies by name: a specification for `load_policy`, `clang:FLAGS`, or a policy.
        seed: Seed of random policies.
    """

    environment: str
    corpus: str | Corpus = "builtin"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str | Policy] = field(default_factory=dict)
    seed: int = 0


class EvaluatedPolicies:
    """The environment of an evaluation, its policies, and its plain compiles with other flags.

    Attributes:
        settings: The settings, with callee features if a policy uses them.
        env: The environment.
        policies: Policies that decide, by name.
        timeout: Seconds without a sign of life after which a compile fails.

    Raises:
        MlgoError: The environment cannot be made.
        PolicyError: A policy is unknown, or does not fit the environment.
    """

    def __init__(self, settings: RunnerSettings) -> None:
        deciding = [spec for spec in settings.policies.values() if isinstance(spec, str) and not is_plain_clang(spec)]
        settings = replace(settings, arguments=with_callee_features(settings.arguments, deciding))
        self.settings = settings
        self.env = make_environment(settings.environment, {**settings.arguments, "corpus": settings.corpus})
        self.timeout = self.env.setup.timeout
        self.policies: dict[str, Policy] = {}
        self._plain: dict[str, CompilerEnv] = {}
        for name, policy in settings.policies.items():
            if is_plain_clang(policy):
                if self.env.metric == ESTIMATED_INSTRUCTIONS:
                    raise MlgoError(
                        f"expected decisions of a policy for metric={ESTIMATED_INSTRUCTIONS!r}, got {policy!r}; use "
                        "another metric"
                    )
                self._plain[name] = self._with_flags(plain_clang_flags(policy))
            elif isinstance(policy, str):
                self.policies[name] = load_policy(policy, self.env, seed=settings.seed)
            else:
                self.policies[name] = policy

    def _with_flags(self, added: Sequence[str]) -> CompilerEnv:
        """Return an environment whose plain compile has further flags."""
        flags = [*self.env.setup.options.compile_options.extra_flags, *added]
        # A preoptimised module was optimised without these flags.
        changed = with_compile_options(self.settings.arguments, extra_flags=flags, preoptimize=False)
        return make_environment(self.settings.environment, {**changed, "corpus": self.env.corpus})

    def env_of(self, name: str) -> CompilerEnv:
        """Return the environment of a policy; a plain clang with other flags has one of its own."""
        return self._plain.get(name, self.env)

    def is_plain_compile(self, assignment: Assignment) -> bool:
        """Return whether an assignment is a plain compile, without decisions."""
        return assignment.policy in self._plain

    def compile(self, assignment: Assignment) -> EpisodeRecord:
        """Return the result of a plain compile; a failure of the compile is a result, too."""
        env = self._plain[assignment.policy]
        record = env.task.optimization_record
        try:
            module = self.env.corpus.module(assignment.module)
            baseline = measure_baseline(self.env.compilation(module), self.timeout, optimization_record=record)
            started = time.perf_counter()
            with env.compilation(module).session(optimization_record=record) as session:
                measurement = Measurement.of(session.finish(self.timeout))
        except MlgoError as error:
            return EpisodeRecord.of_error(assignment, error)
        seconds = time.perf_counter() - started
        metrics = compile_metrics(env.task, measurement, baseline)
        return EpisodeRecord(*assignment, DONE, metrics=metrics, seconds=round(seconds, 6))

    def close(self) -> None:
        """Close the environment. Idempotent."""
        self.env.close()


def is_plain_clang(policy: str | Policy) -> TypeGuard[str]:
    """Return whether a policy is `clang:FLAGS`, a plain compile without decisions."""
    return isinstance(policy, str) and policy.startswith(PLAIN_CLANG)


class PolicyPool:
    """Lends policy objects to episodes.

    A policy with a batched form serves any number of episodes. Of any other policy each episode gets an object of its
    own, loaded by the same specification. If that returns the same object again, episodes take turns.
    """

    def __init__(self, evaluated: EvaluatedPolicies) -> None:
        self._evaluated = evaluated
        self._free = {name: [policy] for name, policy in evaluated.policies.items()}
        self._single = {name for name, policy in evaluated.settings.policies.items() if not isinstance(policy, str)}

    def take(self, name: str) -> Policy | None:
        """Return a policy object for one episode; None while the only one is in use."""
        first, free = self._evaluated.policies[name], self._free[name]
        if is_batched(first):
            return first
        if not free and name not in self._single:
            settings = self._evaluated.settings
            another = load_policy(str(settings.policies[name]), self._evaluated.env, seed=settings.seed)
            if another is first:
                self._single.add(name)
            else:
                free.append(another)
        return free.pop() if free else None

    def give_back(self, name: str, policy: Policy) -> None:
        """Return a policy object to the pool at the end of its episode."""
        if not is_batched(policy):
            self._free[name].append(policy)


class PolicyObjects:
    """The objects of one policy, or of `PLAIN`, in a folder, each compiled once."""

    def __init__(self, evaluated: EvaluatedPolicies, policy: str, folder: Path) -> None:
        self._env = evaluated.env_of(policy)
        self._policy = evaluated.policies.get(policy)
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._files: dict[tuple[str, str | None, tuple[str, ...]], Path] = {}

    def file(self, name: str, lto: str | None = None, flags: tuple[str, ...] = ()) -> Path:
        """Return a module's object, or its bitcode for link time optimisation, compiled with further flags."""
        path = self._files.get((name, lto, flags))
        if path is None:
            compilation = self._env.compilation(self._env.corpus.module(name))
            compilation = replace(compilation, flags=(*compilation.flags, *flags))
            path = self._folder / f"{len(self._files)}.o"
            path.write_bytes(self._compile(compilation if lto is None else _for_lto(compilation, lto)))
            self._files[name, lto, flags] = path
        return path

    def clear(self) -> None:
        """Delete the files."""
        for path in self._files.values():
            path.unlink()
        self._files.clear()

    def _compile(self, compilation: Compilation) -> bytes:
        setup, task = self._env.setup, self._env.task
        features = self._policy is not None and setup.options.callee_features
        advisors = () if self._policy is None else task.advisors
        limit = setup.options.max_decisions
        decisions = 0

        def choose(decision: Decision) -> bytes:
            nonlocal decisions
            advice = None
            if self._policy is not None and (limit is None or decisions < limit):
                info = decision_info(task, decision, compilation.module.name, decisions)
                action = self._policy.act(task.observe(decision), info)
                advice = task.encode(decision, read_action(action, task.action_space))
            decisions += 1
            return task.default_advice(decision) if advice is None else advice

        with compilation.session(advisors, contexts=features, callee_features=features) as session:
            return drive(session, choose, setup.timeout).object_bytes


def _for_lto(compilation: Compilation, lto: str) -> Compilation:
    """Return the compile that the clang driver runs for link time optimisation."""
    flags = edit_flags(compilation.flags, delete=("-emit-obj",))
    return replace(compilation, flags=(*flags, "-emit-llvm-bc", f"-flto={lto}", "-flto-unit"))
