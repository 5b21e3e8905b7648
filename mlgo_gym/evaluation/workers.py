"""Episodes as work for a scheduler's workers: what runs them where, and what becomes of those that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlgo_gym.corpus.shipping import pack_module
from mlgo_gym.evaluation.abroad import EnvironmentAbroad
from mlgo_gym.evaluation.contestants import Contestants, RunnerSettings
from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.evaluation.episode_result import FAILED, EpisodeResult
from mlgo_gym.evaluation.episode_runner import EpisodeRunner
from mlgo_gym.policies.shipping import unpack_policy
from mlgo_gym.scheduling import Abroad, Lost, Shelf


@dataclass(frozen=True, slots=True)
class Episodes:
    """Makes runners of episodes.

    Attributes:
        settings: environment and policies; they are sent to other processes.
        contestants: the same, made already; for this process alone.
    """

    settings: RunnerSettings
    contestants: Contestants | None = None

    def __call__(self, room: int) -> _Runner:
        """Return a runner of so many episodes at once."""
        return _Runner(EpisodeRunner(self.contestants or Contestants(self.settings), room))


def episodes_abroad(contestants: Contestants) -> Abroad[Assignment, EpisodeResult]:
    """Return how episodes are run on other machines.

    Raises:
        MlgoError: the corpus has no end, or a file of a policy cannot be read.
    """
    settings, env = contestants.settings, contestants.env
    there = EnvironmentAbroad.of(settings.environment, settings.arguments, env)
    goods = there.goods([policy for policy in settings.policies.values() if isinstance(policy, str)])
    # The corpus of this machine is sent as what came of it.
    sent = replace(settings, corpus="", arguments={})
    return Abroad(partial(_start, there, sent), _module, partial(pack_module, env.corpus), goods)


def _module(assignment: Assignment) -> str:
    return assignment.module


def _start(there: EnvironmentAbroad, settings: RunnerSettings, room: int, shelf: Shelf) -> _Runner:
    arguments = there.arguments_on(shelf)
    corpus = arguments.pop("corpus")
    policies = {
        name: unpack_policy(policy, shelf) if isinstance(policy, str) else policy
        for name, policy in settings.policies.items()
    }
    return Episodes(replace(settings, corpus=corpus, arguments=arguments, policies=policies))(room)


class _Runner:
    def __init__(self, episodes: EpisodeRunner) -> None:
        self._episodes = episodes

    def take(self, assignment: Assignment) -> None:
        self._episodes.take(assignment)

    def go_on(self) -> Sequence[tuple[Assignment, EpisodeResult]]:
        results = self._episodes.go_on()
        return [(Assignment(result.policy, result.module, result.project), result) for result in results]

    def close(self) -> None:
        self._episodes.close()


def result_of(assignment: Assignment, result: EpisodeResult | Lost) -> EpisodeResult:
    """Return the result of an episode: a failure, where the worker that ran it has died."""
    if not isinstance(result, Lost):
        return result
    error = {"kind": "worker", "message": f"the worker process died: {result.how}", "exit_status": result.status}
    return EpisodeResult(*assignment, FAILED, error=error)
