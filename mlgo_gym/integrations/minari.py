"""Trajectories as a Minari dataset."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from mlgo_gym.extras import library
from mlgo_gym.make_env import make_environment

if TYPE_CHECKING:
    from mlgo_gym.evaluation.trace import Trajectory


class MinariDataset:
    """Collects trajectories and writes them to Minari's folder of datasets (`$MINARI_DATASETS_PATH`).

    An episode of n decisions has n + 1 observations; the last is all zeros, as the environment returns it. With
    `credit=True` each decision has its own reward. `name` is the id of the dataset, such as `mlgo/inline/default-v0`.

    Raises:
        MissingExtraError: Minari is not installed.
    """

    def __init__(self, name: str, environment: str, policy: str) -> None:
        self._minari = library("minari", "a Minari dataset", "minari")
        self._name, self._environment, self._policy = name, environment, policy
        self._trajectories: list[Trajectory] = []

    def add(self, trajectory: Trajectory) -> None:
        """Add an episode; one without decisions is ignored."""
        if trajectory.steps:
            self._trajectories.append(trajectory)

    def write(self, arguments: dict[str, Any]) -> None:
        """Write the dataset of an environment with these arguments; raise `ValueError` if Minari has the name."""
        last = make_environment(self._environment, arguments).task.final_observation()
        buffers = [self._buffer(number, each, last) for number, each in enumerate(self._trajectories)]
        with warnings.catch_warnings():
            # Minari warns about the missing author, address and code, which only the user knows.
            warnings.simplefilter("ignore", UserWarning)
            self._minari.create_dataset_from_buffers(
                dataset_id=self._name,
                buffer=buffers,
                env=gym.make(self._environment, **arguments),
                algorithm_name=self._policy,
                description=f"{self._environment} under the policy {self._policy}",
            )

    def _buffer(self, number: int, trajectory: Trajectory, last: Any) -> Any:
        steps = trajectory.steps
        end = np.zeros((2, len(steps)), np.bool_)
        end[int(trajectory.result.error is not None), -1] = True
        return self._minari.data_collector.EpisodeBuffer(
            id=number,
            observations=_stack([*(step.observation for step in steps), last]),
            actions=np.array([step.action for step in steps]),
            rewards=np.array(trajectory.rewards_at(range(len(steps))), np.float64),
            terminations=end[0],
            truncations=end[1],
        )


def _stack(observations: list[Any]) -> Any:
    """Return observations as one array, or as a dictionary of arrays."""
    if isinstance(observations[0], dict):
        return {key: _stack([each[key] for each in observations]) for key in observations[0]}
    return np.stack(observations)
