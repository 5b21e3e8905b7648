"""Episodes of an evaluation in one process, as many at once as wanted, with policies that are asked in batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.contestants import Contestants
from mlgo_gym.evaluation.episode_record import Assignment, EpisodeRecord, failure
from mlgo_gym.evaluation.episode_result import NO_DECISIONS, EpisodeResult
from mlgo_gym.evaluation.policy_pool import PolicyPool
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.batching import is_batched, rows
from mlgo_gym.vector.info_batch import unbatch_infos
from mlgo_gym.vector_env import as_vector


@dataclass(slots=True)
class _Running:
    """What one of the environments is busy with."""

    record: EpisodeRecord
    policy: Policy
    info: dict[str, Any] | None = None

    @property
    def assignment(self) -> Assignment:
        return self.record.assignment


class EpisodeRunner:
    """Runs episodes in this process, as many at once as wanted, as if each were alone.

    Decisions are answered as they come; while a policy with a batched form is among those that decide, half of the
    environments are waited for, so that it has something to batch. Plain compiles hold all others up.

    Args:
        contestants: the environment, the policies and the plain compiles.
        envs: how many episodes at once.
    """

    def __init__(self, contestants: Contestants, envs: int) -> None:
        settings = contestants.settings
        self._contestants = contestants
        self._pool = PolicyPool(contestants)
        self._size = envs
        self._envs = as_vector(
            gym.make_vec(
                settings.environment,
                num_envs=envs,
                **{**settings.arguments, "corpus": contestants.env.corpus},
                autoreset_mode=AutoresetMode.DISABLED,
                batch_size=1,
                prefetch=0,
            )
        )
        self._idle = list(range(envs))
        self._running: dict[int, _Running] = {}
        self._waiting: deque[Assignment] = deque()

    @property
    def room(self) -> int:
        """How many more assignments there is room for."""
        return self._size - len(self._running) - len(self._waiting)

    def take(self, assignment: Assignment) -> None:
        """Take an assignment, to be begun by `go_on()`."""
        self._waiting.append(assignment)

    def go_on(self) -> list[EpisodeResult]:
        """Begin what waits, answer decisions until an episode is over, and return the results.

        There are none where nothing was taken.
        """
        results = self._begin()
        while self._running and not results:
            results = self._turn()
        return results

    def _begin(self) -> list[EpisodeResult]:
        """Begin what waits, but for episodes of a policy that is busy with another one."""
        results = []
        for assignment in list(self._waiting):
            if self._contestants.is_plain_compile(assignment):
                self._waiting.remove(assignment)
                results.append(self._contestants.compile(assignment))
                continue
            policy = self._pool.take(assignment.policy)
            if policy is None:
                continue
            self._waiting.remove(assignment)
            number = self._idle.pop()
            self._running[number] = _Running(EpisodeRecord(assignment), policy)
            result = self._reset(number, assignment.module)
            if result is not None:
                results.append(result)
        return results

    def _reset(self, number: int, module: str) -> EpisodeResult | None:
        names = [module if each == number else None for each in range(self._size)]
        try:
            self._envs.async_reset(options={"module": names}, env_ids=[number])
        except MlgoError as error:
            return self._fail(number, error)
        return None

    def _turn(self) -> list[EpisodeResult]:
        """Take in what some environments have come to, and answer their decisions."""
        batched = any(is_batched(running.policy) for running in self._running.values())
        self._envs.batch_size = max(1, len(self._running) // 2) if batched else 1
        try:
            observations, rewards, terminations, truncations, infos = self._envs.recv()
        except MlgoError as error:
            if error.env_id is None:
                raise
            return [self._fail(error.env_id, error)]
        numbers = infos.pop("env_id").tolist()
        results = []
        asking: dict[int, list[int]] = {}
        for row, (number, info) in enumerate(zip(numbers, unbatch_infos(infos, len(numbers)), strict=True)):
            running = self._running[number]
            last, running.info = running.info, _as_single(info)
            if last is not None:
                running.record.note(float(rewards[row]), running.info)
            if terminations[row] or truncations[row]:
                results.append(self._end(number, running.record.result(running.info, self._envs.single_action_space)))
            else:
                asking.setdefault(id(running.policy), []).append(row)
        for askers in asking.values():
            results += self._answer([numbers[row] for row in askers], rows(observations, askers))
        return results

    def _answer(self, numbers: list[int], observations: Any) -> list[EpisodeResult]:
        """Answer decisions by the policy that they share; what goes wrong concerns that episode alone."""
        infos = [self._running[number].info or {} for number in numbers]
        begun = time.process_time()
        try:
            actions = act_batch(self._running[numbers[0]].policy, observations, infos)
            if len(actions) != len(numbers):
                raise MlgoError(f"{len(numbers)} actions were wanted of act_batch(), found {len(actions)}")
        except Exception as error:  # noqa: BLE001 - a policy may raise anything; the other episodes go on
            if len(numbers) == 1:
                return [self._fail(numbers[0], error)]
            each = [self._answer([number], rows(observations, [place])) for place, number in enumerate(numbers)]
            return [result for results in each for result in results]
        share = (time.process_time() - begun) / len(numbers)
        for number in numbers:
            self._running[number].record.policy_seconds += share
        sent = map(self._send, numbers, actions, infos)
        return [result for result in sent if result is not None]

    def _send(self, number: int, action: Any, info: Mapping[str, Any]) -> EpisodeResult | None:
        try:
            self._envs.send([action], [number])
        except Exception as error:  # noqa: BLE001 - the action may be anything
            return self._fail(number, error)
        self._running[number].record.answer(action, info)
        return None

    def _fail(self, number: int, error: Exception) -> EpisodeResult:
        """End an episode by an exception; one that could not even begin may have nothing to decide."""
        assignment = self._running[number].assignment
        if isinstance(error, NoDecisionError):
            return self._end(number, EpisodeResult(*assignment, NO_DECISIONS))
        return self._end(number, failure(assignment, error))

    def _end(self, number: int, result: EpisodeResult) -> EpisodeResult:
        running = self._running.pop(number)
        self._pool.give_back(running.assignment.policy, running.policy)
        self._idle.append(number)
        return result

    def close(self) -> None:
        """End all episodes. Idempotent."""
        self._envs.close()
        self._contestants.close()


def _as_single(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an info of a vector environment as a single one gives it: with Python's numbers."""
    return {name: _as_python(value) for name, value in info.items()}


def _as_python(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return _as_single(value) if isinstance(value, dict) else value
