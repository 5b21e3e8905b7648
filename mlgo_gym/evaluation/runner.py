"""Runs episodes of an evaluation's policies at the same time, in this process, a worker process or a remote one."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.folder import pack_module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.episode.vector.in_process import unbatch_infos
from mlgo_gym.errors import MlgoError, NoDecisionError, PolicyError
from mlgo_gym.evaluation.record import DONE, NO_DECISIONS, Assignment, EpisodeRecord, metrics_of
from mlgo_gym.make_env import RemoteEnvironment, make_environment
from mlgo_gym.policies import Policy, act_batch, load_policy
from mlgo_gym.policies.loading import PLAIN_CLANG, plain_clang_flags, unpack_policy, with_callee_features
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.protocol import is_batched, rows
from mlgo_gym.scheduling import FileStore, RemoteWork
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.vector_env import as_vector

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

    def __init__(self, settings: RunnerSettings) -> None:
        named = [policy for policy in settings.policies.values() if isinstance(policy, str | Network)]
        deciding = [policy for policy in named if not is_plain_clang(policy)]
        settings = replace(settings, arguments=with_callee_features(settings.arguments, deciding))
        self.settings = settings
        self.env = make_environment(settings.environment, {**settings.arguments, "corpus": settings.corpus})
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
        changed = with_compile_options(self.settings.arguments, extra_flags=flags, preoptimize=False)
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


Finished = tuple[Assignment, EpisodeRecord]


@dataclass(slots=True)
class _RunningEpisode:
    """An episode that is running: the info of its pending decision, empty before the first, and sums so far."""

    assignment: Assignment
    policy: Policy
    info: Mapping[str, Any] = field(default_factory=dict)
    actions: list[Any] = field(default_factory=list)
    reward: float = 0.0
    illegal_actions: int = 0
    policy_seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    def add_info(self, info: Mapping[str, Any], reward: float) -> None:
        """Add the info and the reward that followed the last action; the reward of a reset does not count."""
        if self.info:
            self.reward += reward
        if self.info and info.get("illegal_action", False):
            self.illegal_actions += 1
            self.actions[-1] = self.info["default_action"]
        self.info = info

    def record(self, space: gym.Space[Any]) -> EpisodeRecord:
        return EpisodeRecord.of_episode(
            self.assignment,
            self.info,
            self.actions,
            space,
            reward=self.reward,
            illegal_actions=self.illegal_actions,
            policy_seconds=self.policy_seconds,
            seconds=time.perf_counter() - self.started,
        )


class EpisodeRunner:
    """Runs episodes in this process, with the results that each has alone.

    Policies decide as soon as a decision arrives. While a policy with a batched form is running, the runner waits for
    half of the `envs` environments, so that batches form. A plain compile blocks the other episodes. A worker process
    makes the environment of the settings.
    """

    def __init__(self, settings: RunnerSettings, evaluated: EvaluatedPolicies | None, envs: int) -> None:
        self._evaluated = evaluated = evaluated or EvaluatedPolicies(settings)
        settings = evaluated.settings
        self._free = {name: [policy] for name, policy in evaluated.policies.items()}
        self._single = {name for name, policy in settings.policies.items() if not isinstance(policy, str)}
        self._size = envs
        self._envs = as_vector(
            gym.make_vec(
                settings.environment,
                num_envs=envs,
                **{**settings.arguments, "corpus": evaluated.env.corpus},
                autoreset_mode=AutoresetMode.DISABLED,
                batch_size=1,
                prefetch=0,
            )
        )
        self._idle = list(range(envs))
        self._running: dict[int, _RunningEpisode] = {}
        self._waiting: deque[Assignment] = deque()
        self._finished: list[Finished] = []

    def work(self, assignments: Sequence[Assignment]) -> list[Finished]:
        """Start assignments, decide until an episode ends, and return the results."""
        self._waiting.extend(assignments)
        self._start()
        while self._running and not self._finished:
            self._step()
        finished, self._finished = self._finished, []
        return finished

    def _start(self) -> None:
        """Start the waiting assignments, except those of a policy whose only object is in use."""
        for assignment in list(self._waiting):
            if assignment.policy not in self._evaluated.policies:
                self._waiting.remove(assignment)
                self._finished.append((assignment, self._evaluated.compile(assignment)))
                continue
            policy = self._take(assignment.policy)
            if policy is None:
                continue
            self._waiting.remove(assignment)
            env_id = self._idle.pop()
            self._running[env_id] = _RunningEpisode(assignment, policy)
            names = [assignment.module if index == env_id else None for index in range(self._size)]
            try:
                self._envs.async_reset(options={"module": names}, env_ids=[env_id])
            except MlgoError as error:
                self._fail(env_id, error)

    def _take(self, name: str) -> Policy | None:
        """Return a policy object for one episode; None while the only one is in use.

        A policy with a batched form serves any number of episodes. Of any other policy each episode gets an object of
        its own, loaded by the same specification. If that returns the same object again, episodes take turns.
        """
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

    def _step(self) -> None:
        """Receive the decisions of some environments, and answer them."""
        batched = any(is_batched(running.policy) for running in self._running.values())
        self._envs.batch_size = max(1, len(self._running) // 2) if batched else 1
        try:
            observations, rewards, terminations, truncations, infos = self._envs.recv()
        except MlgoError as error:
            if error.env_id is None:
                raise
            self._fail(error.env_id, error)
            return
        env_ids = infos.pop("env_id").tolist()
        pending: dict[int, list[int]] = {}
        for row, (env_id, info) in enumerate(zip(env_ids, unbatch_infos(infos, len(env_ids)), strict=True)):
            running = self._running[env_id]
            running.add_info(_as_single(info), float(rewards[row]))
            if terminations[row] or truncations[row]:
                self._end(env_id, running.record(self._envs.single_action_space))
            else:
                pending.setdefault(id(running.policy), []).append(row)
        for batch in pending.values():
            self._decide([env_ids[row] for row in batch], rows(observations, batch))

    def _decide(self, env_ids: list[int], observations: Any) -> None:
        """Answer decisions by the policy that they share; if it raises, each decision is tried alone."""
        infos = [self._running[env_id].info for env_id in env_ids]
        started = time.process_time()
        try:
            actions = act_batch(self._running[env_ids[0]].policy, observations, infos)
            if len(actions) != len(env_ids):
                raise MlgoError(f"expected {len(env_ids)} actions of act_batch(), got {len(actions)}")
        except Exception as error:  # noqa: BLE001 - a policy may raise anything; the other episodes continue
            if len(env_ids) == 1:
                self._fail(env_ids[0], error)
                return
            for row, env_id in enumerate(env_ids):
                self._decide([env_id], rows(observations, [row]))
            return
        share = (time.process_time() - started) / len(env_ids)
        for env_id, action in zip(env_ids, actions, strict=True):
            running = self._running[env_id]
            running.policy_seconds += share
            try:
                self._envs.send([action], [env_id])
                running.actions.append(action)
            except Exception as error:  # noqa: BLE001 - the action may be anything
                self._fail(env_id, error)

    def _fail(self, env_id: int, error: Exception) -> None:
        assignment = self._running[env_id].assignment
        if isinstance(error, NoDecisionError):
            self._end(env_id, EpisodeRecord(*assignment, NO_DECISIONS))
        else:
            self._end(env_id, EpisodeRecord.of_error(assignment, error))

    def _end(self, env_id: int, result: EpisodeRecord) -> None:
        running = self._running.pop(env_id)
        if not is_batched(running.policy):
            self._free[running.assignment.policy].append(running.policy)
        self._idle.append(env_id)
        self._finished.append((running.assignment, result))

    def close(self) -> None:
        """End all episodes. Idempotent."""
        self._envs.close()
        self._evaluated.close()


def _as_single(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an info of a vector environment with the Python numbers that a single environment gives."""
    return {
        name: _as_single(value) if isinstance(value, dict) else value.item() if isinstance(value, np.generic) else value
        for name, value in info.items()
    }


def remote_episodes(evaluated: EvaluatedPolicies, envs: int) -> RemoteWork[Assignment, EpisodeRecord]:
    """Return the work as remote machines need it; raise an MlgoError if a policy file cannot be read."""
    settings, env = evaluated.settings, evaluated.env
    remote = RemoteEnvironment.of(settings.environment, settings.arguments, env)
    files = remote.stored_files([policy for policy in settings.policies.values() if isinstance(policy, str)])
    # The corpus and the arguments travel in `remote`.
    sent = replace(settings, corpus="", arguments={})
    start = partial(_start_remotely, remote, sent, envs)
    return RemoteWork(start, attrgetter("module"), partial(pack_module, env.corpus), files)


def _start_remotely(remote: RemoteEnvironment, settings: RunnerSettings, envs: int, store: FileStore) -> EpisodeRunner:
    arguments = remote.arguments_on(store)
    corpus = arguments.pop("corpus")
    policies = {
        name: unpack_policy(policy, store) if isinstance(policy, str) else policy
        for name, policy in settings.policies.items()
    }
    return EpisodeRunner(replace(settings, corpus=corpus, arguments=arguments, policies=policies), None, envs)
