"""One process's part of an evaluation: an environment, policies, and one of these on one module at a time."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

import gymnasium as gym

import mlgo_gym
from mlgo_gym.baseline import baseline_session, measure_baseline
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.decision_count import known_decisions
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.actions import pack_actions
from mlgo_gym.evaluation.episode_result import DONE, FAILED, NO_DECISIONS, EpisodeResult
from mlgo_gym.measurement import Measurement
from mlgo_gym.options import Settings
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.plain_clang import PREFIX, plain_clang_flags

_BASELINE = "baseline_"


class Assignment(NamedTuple):
    """One policy on one module, and the project that this belongs to."""

    policy: str
    module: str
    project: str


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


def make_environment(name: str, arguments: Mapping[str, Any]) -> CompilerEnv:
    """Return an environment of mlgo-gym, without wrappers.

    Args:
        name: its id.
        arguments: its arguments.

    Raises:
        MlgoError: there is no such environment, it is none of ours, or it does not take the arguments.
    """
    try:
        env = gym.make(name, disable_env_checker=True, **arguments).unwrapped
    except gym.error.Error as error:
        known = ", ".join(mlgo_gym.ENVIRONMENTS)
        raise MlgoError(f"there is no environment {name!r} ({error}); there are {known}") from error
    except TypeError as error:
        raise MlgoError(f"{name} does not take the arguments {dict(arguments)}: {error}; correct them") from error
    if not isinstance(env, CompilerEnv):
        raise MlgoError(f"an environment of mlgo-gym was wanted, and {name} is {type(env).__name__}; choose another")
    return env


class EpisodeRunner:
    """Runs episodes one after the other, in this process.

    Args:
        settings: environment and policies.

    Attributes:
        env: the environment.

    Raises:
        MlgoError: the environment cannot be made.
        PolicyError: a policy cannot be found, or does not fit the environment.
    """

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = settings
        self.env = make_environment(settings.environment, {**settings.arguments, "corpus": settings.corpus})
        self._timeout = float(settings.arguments.get("timeout", Settings().timeout))
        self._policies: dict[str, Policy] = {}
        self._clangs: dict[str, CompilerEnv] = {}
        for name, policy in settings.policies.items():
            if is_plain_clang(policy):
                self._clangs[name] = self._with_flags(plain_clang_flags(policy))
            elif isinstance(policy, str):
                self._policies[name] = load_policy(policy, self.env, seed=settings.seed)
            else:
                self._policies[name] = policy

    def _with_flags(self, added: Sequence[str]) -> CompilerEnv:
        """Return an environment whose plain compile is the one wanted."""
        flags = [*self._settings.arguments.get("extra_flags", ()), *added]
        # What was optimised before does not know the flags.
        changed = {**self._settings.arguments, "extra_flags": flags, "preoptimize": False, "corpus": self.env.corpus}
        changed.pop("verify_preoptimized", None)
        return make_environment(self._settings.environment, changed)

    def run(self, assignment: Assignment) -> EpisodeResult:
        """Return what a policy does on a module; what goes wrong is part of the result."""

        def failed(kind: str, message: str, **more: Any) -> EpisodeResult:
            return EpisodeResult(*assignment, FAILED, error={"kind": kind, "message": message, **more})

        try:
            module = self.env.corpus.module(assignment.module)
            baseline = measure_baseline(self.env.compilation(module), self._timeout, record=self.env.task.record)
            if assignment.policy in self._clangs:
                return self._compile(assignment, module, baseline)
            return self._episode(assignment, module)
        except CompilerError as error:
            return failed(error.kind, error.message, exit_status=error.exit_status, stderr=error.stderr)
        except MlgoError as error:
            return failed(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - the user's policy may raise anything; the other episodes go on
            return failed("policy", f"{type(error).__name__}: {error}", traceback=traceback.format_exc())

    def _episode(self, assignment: Assignment, module: Module) -> EpisodeResult:
        policy = self._policies[assignment.policy]
        started = time.perf_counter()
        try:
            observation, info = self.env.reset(options={"module": module.name})
        except MlgoError:
            if known_decisions(self.env.compilation(module), self.env.task) == {}:
                return EpisodeResult(*assignment, NO_DECISIONS)
            raise
        total = 0.0
        illegal = 0
        actions = []
        over = False
        while not over:
            action, default = policy.act(observation, info), info["default_action"]
            observation, reward, terminated, truncated, info = self.env.step(action)
            over = terminated or truncated
            total += reward
            replaced = info.get("illegal_action", False)
            illegal += replaced
            actions.append(default if replaced else action)
        return EpisodeResult(
            *assignment,
            FAILED if "error" in info else DONE,
            measures=_pairs(info),
            reward=total,
            decisions=info["decisions"],
            handed_over=info["handed_over"],
            illegal_actions=illegal,
            actions=pack_actions(actions, self.env.action_space),
            seconds=round(time.perf_counter() - started, 6),
            error=info.get("error"),
        )

    def _compile(self, assignment: Assignment, module: Module, baseline: Measurement) -> EpisodeResult:
        env = self._clangs[assignment.policy]
        started = time.perf_counter()
        with baseline_session(env.compilation(module), record=env.task.record) as session:
            measurement = Measurement.of(session.finish(self._timeout))
        seconds = time.perf_counter() - started
        reference = baseline.named_sizes()
        measures: dict[str, tuple[float, float]] = {
            **{name: (size, reference[name]) for name, size in measurement.named_sizes().items()},
            **_pairs(env.task.report(measurement, baseline)),
        }
        return EpisodeResult(*assignment, DONE, measures=measures, seconds=round(seconds, 6))

    def close(self) -> None:
        """End the environment. Idempotent."""
        self.env.close()


def is_plain_clang(policy: str | Policy) -> TypeGuard[str]:
    """Return whether a policy is `clang:FLAGS`, which decides nothing."""
    return isinstance(policy, str) and policy.startswith(PREFIX)


def _pairs(info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return everything in `info` that has a baseline beside it."""
    return {name: (info[name], info[_BASELINE + name]) for name in info if _BASELINE + name in info}
