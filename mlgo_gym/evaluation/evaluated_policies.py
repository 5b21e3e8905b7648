"""The environment of an evaluation, its policies, and its plain compiles with other flags."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.record import DONE, Assignment, EpisodeRecord, compile_metrics
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import PLAIN_CLANG, plain_clang_flags, with_callee_features
from mlgo_gym.policies.protocol import is_batched
from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS, Measurement


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
