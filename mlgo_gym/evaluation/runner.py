"""Runs episodes at the same time in this process, a worker process or a remote one; policies decide in batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from mlgo_gym.corpus.remote_modules import pack_module
from mlgo_gym.episode.vector.in_process import unbatch_infos
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, PolicyPool, RunnerSettings
from mlgo_gym.evaluation.record import FAILED, NO_DECISIONS, Assignment, EpisodeRecord
from mlgo_gym.make_env import RemoteEnvironment
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.model_files import unpack_policy
from mlgo_gym.policies.protocol import is_batched, rows
from mlgo_gym.scheduling import FileStore, RemoteWork, WorkerFailure
from mlgo_gym.vector_env import as_vector

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
        """Return the record of the finished episode."""
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
    half of the `envs` environments, so that batches form. A plain compile blocks the other episodes.
    """

    def __init__(self, evaluated: EvaluatedPolicies, envs: int) -> None:
        settings = evaluated.settings
        self._evaluated = evaluated
        self._pool = PolicyPool(evaluated)
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

    def work(self, assignments: Sequence[Assignment]) -> list[Finished]:
        """Start assignments, decide until an episode ends, and return the results."""
        self._waiting.extend(assignments)
        finished = self._start()
        while self._running and not finished:
            finished = self._step()
        return finished

    def _start(self) -> list[Finished]:
        """Start the waiting assignments, except those of a policy whose only object is in use."""
        finished = []
        for assignment in list(self._waiting):
            if self._evaluated.is_plain_compile(assignment):
                self._waiting.remove(assignment)
                finished.append((assignment, self._evaluated.compile(assignment)))
                continue
            policy = self._pool.take(assignment.policy)
            if policy is None:
                continue
            self._waiting.remove(assignment)
            number = self._idle.pop()
            self._running[number] = _RunningEpisode(assignment, policy)
            names = [assignment.module if index == number else None for index in range(self._size)]
            try:
                self._envs.async_reset(options={"module": names}, env_ids=[number])
            except MlgoError as error:
                finished.append(self._fail(number, error))
        return finished

    def _step(self) -> list[Finished]:
        """Receive the decisions of some environments, and answer them."""
        batched = any(is_batched(running.policy) for running in self._running.values())
        self._envs.batch_size = max(1, len(self._running) // 2) if batched else 1
        try:
            observations, rewards, terminations, truncations, infos = self._envs.recv()
        except MlgoError as error:
            if error.env_id is None:
                raise
            return [self._fail(error.env_id, error)]
        numbers = infos.pop("env_id").tolist()
        finished = []
        pending: dict[int, list[int]] = {}
        for row, (number, info) in enumerate(zip(numbers, unbatch_infos(infos, len(numbers)), strict=True)):
            running = self._running[number]
            running.add_info(_as_single(info), float(rewards[row]))
            if terminations[row] or truncations[row]:
                finished.append(self._end(number, running.record(self._envs.single_action_space)))
            else:
                pending.setdefault(id(running.policy), []).append(row)
        for batch in pending.values():
            finished += self._decide([numbers[row] for row in batch], rows(observations, batch))
        return finished

    def _decide(self, numbers: list[int], observations: Any) -> list[Finished]:
        """Answer decisions by the policy that they share; if it raises, each decision is tried alone."""
        infos = [self._running[number].info for number in numbers]
        started = time.process_time()
        try:
            actions = act_batch(self._running[numbers[0]].policy, observations, infos)
            if len(actions) != len(numbers):
                raise MlgoError(f"expected {len(numbers)} actions of act_batch(), got {len(actions)}")
        except Exception as error:  # noqa: BLE001 - a policy may raise anything; the other episodes continue
            if len(numbers) == 1:
                return [self._fail(numbers[0], error)]
            alone = (self._decide([number], rows(observations, [row])) for row, number in enumerate(numbers))
            return [result for results in alone for result in results]
        share = (time.process_time() - started) / len(numbers)
        for number in numbers:
            self._running[number].policy_seconds += share
        sent = map(self._send, numbers, actions)
        return [result for result in sent if result is not None]

    def _send(self, number: int, action: Any) -> Finished | None:
        try:
            self._envs.send([action], [number])
        except Exception as error:  # noqa: BLE001 - the action may be anything
            return self._fail(number, error)
        self._running[number].actions.append(action)
        return None

    def _fail(self, number: int, error: Exception) -> Finished:
        assignment = self._running[number].assignment
        if isinstance(error, NoDecisionError):
            return self._end(number, EpisodeRecord(*assignment, NO_DECISIONS))
        return self._end(number, EpisodeRecord.of_error(assignment, error))

    def _end(self, number: int, result: EpisodeRecord) -> Finished:
        running = self._running.pop(number)
        self._pool.give_back(running.assignment.policy, running.policy)
        self._idle.append(number)
        return running.assignment, result

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


def episode_runner(settings: RunnerSettings, evaluated: EvaluatedPolicies | None, capacity: int) -> EpisodeRunner:
    """Return a runner of `capacity` episodes at the same time; a worker process makes the environment of `settings`."""
    return EpisodeRunner(evaluated or EvaluatedPolicies(settings), capacity)


def remote_episodes(evaluated: EvaluatedPolicies) -> RemoteWork[Assignment, EpisodeRecord]:
    """Return the work as remote machines need it.

    Raises:
        MlgoError: A policy file cannot be read.
    """
    settings, env = evaluated.settings, evaluated.env
    remote = RemoteEnvironment.of(settings.environment, settings.arguments, env)
    files = remote.stored_files([policy for policy in settings.policies.values() if isinstance(policy, str)])
    # The corpus and the arguments travel in `remote`.
    sent = replace(settings, corpus="", arguments={})
    start = partial(_start_remotely, remote, sent)
    return RemoteWork(start, attrgetter("module"), partial(pack_module, env.corpus), files)


def _start_remotely(
    remote: RemoteEnvironment, settings: RunnerSettings, capacity: int, store: FileStore
) -> EpisodeRunner:
    arguments = remote.arguments_on(store)
    corpus = arguments.pop("corpus")
    policies = {
        name: unpack_policy(policy, store) if isinstance(policy, str) else policy
        for name, policy in settings.policies.items()
    }
    return episode_runner(replace(settings, corpus=corpus, arguments=arguments, policies=policies), None, capacity)


def record_of(assignment: Assignment, result: EpisodeRecord | WorkerFailure) -> EpisodeRecord:
    """Return the record of an episode; a failure if its worker died."""
    if not isinstance(result, WorkerFailure):
        return result
    error = {"kind": "worker", "message": f"the worker process died: {result.how}", "exit_status": result.status}
    return EpisodeRecord(*assignment, FAILED, error=error)
