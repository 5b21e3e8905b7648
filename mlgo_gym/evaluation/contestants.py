"""Who takes part in an evaluation: the policies, made for an environment, and plain clangs with other flags."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import baseline_session, measure_baseline
from mlgo_gym.episode.options import Settings
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.episode_record import Assignment, failure, measures_of
from mlgo_gym.evaluation.episode_result import DONE, EpisodeResult
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_calls
from mlgo_gym.policies.plain_clang import PREFIX, plain_clang_flags
from mlgo_gym.tasks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What a process needs to know to run episodes.

    Attributes:
        environment: the environment's id.
        corpus: what `open_corpus` takes.
        arguments: the environment's other arguments.
        policies: by name: what `load_policy` takes, `clang:FLAGS`, or a policy.
        seed: what random policies depend on.
    """

    environment: str
    corpus: str | Corpus = "builtin"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str | Policy] = field(default_factory=dict)
    seed: int = 0


class Contestants:
    """The environment of an evaluation, its policies, and the plain compiles that are compared with them.

    Args:
        settings: environment and policies.

    Attributes:
        settings: as given, and with `calls` where a policy wants them.
        env: the environment.
        policies: the policies that decide something, by name.
        timeout: how long clang may be silent, in seconds.

    Raises:
        MlgoError: the environment cannot be made.
        PolicyError: a policy cannot be found, or does not fit the environment.
    """

    def __init__(self, settings: RunnerSettings) -> None:
        deciding = [each for each in settings.policies.values() if isinstance(each, str) and not is_plain_clang(each)]
        # No result of those that do not want calls depends on them.
        settings = replace(settings, arguments=with_calls(settings.arguments, deciding))
        self.settings = settings
        self.env = make_environment(settings.environment, {**settings.arguments, "corpus": settings.corpus})
        self.timeout = float(settings.arguments.get("timeout", Settings().timeout))
        self.policies: dict[str, Policy] = {}
        self._clangs: dict[str, CompilerEnv] = {}
        for name, policy in settings.policies.items():
            if is_plain_clang(policy):
                self._clangs[name] = self._with_flags(plain_clang_flags(policy))
            elif isinstance(policy, str):
                self.policies[name] = load_policy(policy, self.env, seed=settings.seed)
            else:
                self.policies[name] = policy

    def _with_flags(self, added: Sequence[str]) -> CompilerEnv:
        """Return an environment whose plain compile is the one wanted."""
        flags = [*self.settings.arguments.get("extra_flags", ()), *added]
        # What was optimised before does not know the flags.
        changed = {**self.settings.arguments, "extra_flags": flags, "preoptimize": False, "corpus": self.env.corpus}
        changed.pop("verify_preoptimized", None)
        return make_environment(self.settings.environment, changed)

    def deciding_env(self, name: str) -> CompilerEnv:
        """Return the environment in which a policy decides: another one than `env` for a clang with other flags."""
        return self._clangs.get(name, self.env)

    def is_plain_compile(self, assignment: Assignment) -> bool:
        """Return whether nobody decides anything."""
        return assignment.policy in self._clangs

    def compile(self, assignment: Assignment) -> EpisodeResult:
        """Return what a plain compile comes to; what goes wrong is part of the result."""
        try:
            return self._compile(assignment)
        except MlgoError as error:
            return failure(assignment, error)

    def _compile(self, assignment: Assignment) -> EpisodeResult:
        env = self._clangs[assignment.policy]
        module = self.env.corpus.module(assignment.module)
        baseline = measure_baseline(
            self.env.compilation(module), self.timeout, optimization_record=self.env.task.optimization_record
        )
        started = time.perf_counter()
        with baseline_session(env.compilation(module), optimization_record=env.task.optimization_record) as session:
            measurement = Measurement.of(session.finish(self.timeout))
        seconds = time.perf_counter() - started
        reference = baseline.named_sizes()
        measures: dict[str, tuple[float, float]] = {
            **{name: (size, reference[name]) for name, size in measurement.named_sizes().items()},
            **measures_of(env.task.report(measurement, baseline)),
        }
        return EpisodeResult(*assignment, DONE, measures=measures, seconds=round(seconds, 6))

    def close(self) -> None:
        """End the environment. Idempotent."""
        self.env.close()


def is_plain_clang(policy: str | Policy) -> TypeGuard[str]:
    """Return whether a policy is `clang:FLAGS`, which decides nothing."""
    return isinstance(policy, str) and policy.startswith(PREFIX)
