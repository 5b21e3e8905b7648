"""Runs episodes of an evaluation's policies, in this process, a worker process or a remote one."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeGuard

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.episode_maker import EpisodeStart
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.episode.outcome import FAILURE_KEYS
from mlgo_gym.errors import CompilerError, MlgoError, NoDecisionError, PolicyError
from mlgo_gym.evaluation.record import DONE, FAILED, NO_DECISIONS, Assignment, EpisodeRecord, metrics_of, pack_actions
from mlgo_gym.make_env import EnvironmentWork, make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import PLAIN_CLANG, plain_clang_flags, unpack_policy, with_callee_features
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.rules import Rule
from mlgo_gym.scheduling import Execution, FileStore, Workers, in_process
from mlgo_gym.tasks.measurement import Measurement

PLAIN = "plain clang"
"""Policy name of clang without a policy."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """The settings from which a process makes an environment and policies, as for `evaluate()`."""

    environment: str
    corpus: str | Corpus = "builtin"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str | Network | Policy] = field(default_factory=dict)
    seed: int = 0


class EvaluatedPolicies:
    """The environment of an evaluation, its policies, and its plain compiles; errors are those of `evaluate()`.

    The `settings` have callee features if a policy uses them; `policies` are those that decide, by name.
    """

    def __init__(self, settings: RunnerSettings, env: CompilerEnv | None = None) -> None:
        named = [policy for policy in settings.policies.values() if isinstance(policy, str | Network)]
        deciding = [policy for policy in named if not is_plain_clang(policy)]
        settings = replace(settings, arguments=with_callee_features(settings.arguments, deciding))
        self.settings = settings
        arguments = {**settings.arguments, "corpus": settings.corpus}
        self.env = make_environment(settings.environment, arguments) if env is None else env
        self.timeout = self.env.setup.timeout
        self.policies: dict[str, Policy] = {}
        self._plain: dict[str, CompilerEnv] = {}
        for name, policy in settings.policies.items():
            if is_plain_clang(policy):
                self._plain[name] = self._with_flags(plain_clang_flags(policy))
            elif isinstance(policy, str):
                self.policies[name] = load_policy(policy, self.env, seed=settings.seed)
            elif isinstance(policy, Network):
                self.policies[name] = MlpPolicy(self.env, policy, name)
            elif callable(getattr(policy, "act", None)):
                self.policies[name] = policy
            else:
                raise PolicyError(
                    f"expected a policy with act(observation, info) as {name!r}, got {type(policy).__name__}; pass "
                    "read_sb3(model) of mlgo_gym.integrations.sb3 for a model of stable-baselines3"
                )

    def _with_flags(self, added: Sequence[str]) -> CompilerEnv:
        """Return an environment whose plain compile has further flags."""
        flags = [*self.env.setup.options.compile_options.extra_flags, *added]
        # A preoptimised module was optimised without these flags.
        assert self.env.spec is not None, "gym.make() made it"
        changed = with_compile_options(self.env.spec.kwargs, extra_flags=flags, preoptimize=False)
        return make_environment(self.settings.environment, {**changed, "corpus": self.env.corpus})

    def env_of(self, name: str) -> CompilerEnv:
        """Return the environment of a policy; a plain clang with other flags has one of its own."""
        return self._plain.get(name, self.env)

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
        metrics = metrics_of(env.task.report(measurement, baseline))
        return EpisodeRecord(*assignment, DONE, metrics=metrics, seconds=round(seconds, 6))

    def close(self) -> None:
        """Close the environment. Idempotent."""
        self.env.close()


def is_plain_clang(policy: str | Network | Policy) -> TypeGuard[str]:
    """Return whether a policy is `clang:FLAGS`, a plain compile without decisions."""
    return isinstance(policy, str) and policy.startswith(PLAIN_CLANG)


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a policy.

    Attributes:
        decision: The decision, with its features as clang wrote them.
        advice: Bytes of the advice that clang received.
        observation: Observation of the policy.
        action: Action of the policy; clang's own choice if that was illegal.
    """

    decision: Decision
    advice: bytes
    observation: Any
    action: Any


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, decision by decision.

    Attributes:
        result: Record of the episode.
        steps: Decisions of the policy.
        rewards: Reward of each step, if the environment gives credit; else None, and the reward comes with the last
            step.
    """

    result: EpisodeRecord
    steps: Sequence[Step] = ()
    rewards: tuple[float, ...] | None = None

    def rewards_at(self, indices: Sequence[int]) -> list[float]:
        """Return the rewards of some steps; without credit, the last of them has the reward of the episode."""
        if self.rewards is not None:
            return [self.rewards[index] for index in indices]
        return [*(0.0 for _ in indices[1:]), self.result.reward or 0.0] if indices else []


def record_trajectory(
    env: CompilerEnv, policy: Policy, assignment: Assignment, *, with_steps: bool = True
) -> Trajectory:
    """Return the episode of a policy on a module of the environment, whose current episode is not affected.

    Raises:
        CompilerError: The compile failed, and the environment has `error_reward=None`.
        ActionError: The policy's action is illegal, and the environment is strict.
    """
    setup, module = env.setup, env.corpus.module(assignment.module)
    started = time.perf_counter()
    try:
        episode = run_blocking(env.maker.begin(env.np_random, EpisodeStart(module)), setup.timeout)
    except NoDecisionError:
        return Trajectory(EpisodeRecord(*assignment, NO_DECISIONS))
    except CompilerError as error:
        if setup.options.error_reward is None:
            raise
        return Trajectory(EpisodeRecord.of_error(assignment, error))
    steps: list[Step] = []
    illegal_actions, policy_seconds = 0, 0.0
    with closing(episode):
        while (decision := episode.decision) is not None:
            observation, info = episode.observe(), episode.info()
            before = time.process_time()
            action = policy.act(observation, info)
            policy_seconds += time.process_time() - before
            action, advice, is_illegal = episode.take(action)
            illegal_actions += is_illegal
            if with_steps:
                steps.append(Step(decision, advice, observation, action))
    assert episode.outcome is not None, "no decision is left"
    last = episode.full_info
    result = EpisodeRecord(
        *assignment,
        FAILED if last["error"] else DONE,
        metrics={} if last["error"] else metrics_of(last),
        reward=episode.outcome.reward,
        decisions=last["decisions"],
        handed_over=last["handed_over"],
        illegal_actions=illegal_actions,
        actions=pack_actions(episode.actions, env.action_space),
        seconds=round(time.perf_counter() - started, 6),
        error={key: last["error"][key] for key in FAILURE_KEYS} if last["error"] else None,
        policy_seconds=round(policy_seconds, 6),
        grown_frames=last.get("grown_frames"),
    )
    return Trajectory(result, steps, last.get("rewards"))


def episode_workers(evaluated: EvaluatedPolicies, execution: Execution) -> Workers[Assignment, EpisodeRecord]:
    """Return the workers that run episodes; raise an MlgoError if a policy file cannot be read."""
    settings = evaluated.settings
    if execution.in_process:
        return in_process(lambda: partial(_run_episode, evaluated))
    arguments = {**settings.arguments, "corpus": settings.corpus}
    # The corpus and the arguments travel with the environment.
    start = partial(_start_episodes, replace(settings, corpus="", arguments={}))
    files = [policy for policy in settings.policies.values() if isinstance(policy, str)]
    work = EnvironmentWork(settings.environment, arguments, start, files, attrgetter("module"))
    return work.workers(evaluated.env, execution)


def _start_episodes(
    settings: RunnerSettings, env: CompilerEnv, store: FileStore | None
) -> Callable[[Assignment], EpisodeRecord]:
    policies = {
        name: unpack_policy(policy, store) if isinstance(policy, str) else policy
        for name, policy in settings.policies.items()
    }
    return partial(_run_episode, EvaluatedPolicies(replace(settings, policies=policies), env))


def _run_episode(evaluated: EvaluatedPolicies, assignment: Assignment) -> EpisodeRecord:
    if assignment.policy not in evaluated.policies:
        return evaluated.compile(assignment)
    policy, raised = evaluated.policies[assignment.policy], list[Exception]()

    def act(observation: Any, info: Mapping[str, Any]) -> Any:
        try:
            return policy.act(observation, info)
        except Exception as error:
            raised.append(error)
            raise

    try:
        return record_trajectory(evaluated.env, Rule(act), assignment, with_steps=False).result
    except Exception as error:
        # A policy may raise anything, and the other episodes continue; an error of this machine concerns all.
        if not isinstance(error, MlgoError) and error not in raised:
            raise
        return EpisodeRecord.of_error(assignment, error)
