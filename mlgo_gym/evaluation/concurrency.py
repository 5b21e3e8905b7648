"""How many episodes of an evaluation a process runs at once."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.episode_runner import EpisodeRunner, RunnerSettings
from mlgo_gym.evaluation.vector_runner import VectorRunner


class Runner(Protocol):
    """Runs assignments, however many at once."""

    @property
    def room(self) -> int:
        """How many more assignments there is room for."""

    def take(self, assignment: Assignment) -> None:
        """Take an assignment, to be begun by `go_on()`."""

    def go_on(self) -> list[EpisodeResult]:
        """Go on until an episode is over, and return the results; none where nothing was taken."""

    def close(self) -> None:
        """End all episodes. Idempotent."""


class OneByOne:
    """Runs one episode after the other.

    Args:
        runner: who runs them.
    """

    def __init__(self, runner: EpisodeRunner) -> None:
        self._runner = runner
        self._waiting: deque[Assignment] = deque()

    @property
    def room(self) -> int:
        """How many more assignments there is room for: one, where there is none."""
        return 1 - len(self._waiting)

    def take(self, assignment: Assignment) -> None:
        """Take an assignment, to be run by `go_on()`."""
        self._waiting.append(assignment)

    def go_on(self) -> list[EpisodeResult]:
        """Run an episode, if one was taken, and return its result."""
        return [self._runner.run(self._waiting.popleft())] if self._waiting else []

    def close(self) -> None:
        """End the episode. Idempotent."""
        self._runner.close()


def make_runner(runner: EpisodeRunner | RunnerSettings, envs: int) -> Runner:
    """Return what runs so many episodes at once in this process.

    Args:
        runner: environment and policies, or what is needed to make them.
        envs: how many; with 1 there is no vector environment.

    Raises:
        MlgoError: the environment cannot be made.
        PolicyError: a policy cannot be found, or does not fit the environment.
    """
    if isinstance(runner, RunnerSettings):
        runner = EpisodeRunner(runner)
    return OneByOne(runner) if envs == 1 else VectorRunner(runner, envs)
