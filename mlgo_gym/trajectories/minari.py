"""Trajectories as a Minari dataset."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.errors import MissingExtraError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.trajectories.trajectory import Trajectory


class MinariDataset:
    """Gathers trajectories, and writes them where Minari keeps its datasets (`$MINARI_DATASETS_PATH`).

    An episode of n decisions has n + 1 observations, the last one all zeros, as the environment gives them. With
    `credit=True` each decision has its own reward.

    Args:
        name: the dataset's id, such as `mlgo/inline/default-v0`.
        environment: the environment's id.
        policy: the policy, for the description.

    Raises:
        MissingExtraError: Minari is not installed.
    """

    def __init__(self, name: str, environment: str, policy: str) -> None:
        try:
            import minari
        except ImportError:
            raise MissingExtraError("a Minari dataset", "minari") from None
        self._minari = minari
        self._name = name
        self._environment = environment
        self._policy = policy
        self._trajectories: list[Trajectory] = []

    def add(self, trajectory: Trajectory | None) -> None:
        """Add an episode; a module in which nothing was decided adds nothing."""
        if trajectory is not None and trajectory.steps:
            self._trajectories.append(trajectory)

    def write(self, arguments: dict[str, Any]) -> None:
        """Write the dataset.

        Args:
            arguments: the arguments of the environment that the episodes are of.

        Raises:
            ValueError: Minari has a dataset of that name already.
        """
        env = make_environment(self._environment, arguments)
        last = env.task.final_observation()
        buffers = [self._buffer(number, each, last) for number, each in enumerate(self._trajectories)]
        with warnings.catch_warnings():
            # Minari asks for an author's name, address and code, which only the user can give.
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
        failed = trajectory.error is not None
        end[int(failed), -1] = True
        rewards = np.zeros(len(steps), np.float64)
        if trajectory.rewards is None:
            rewards[-1] = trajectory.reward
        else:
            rewards[:] = trajectory.rewards
        return self._minari.data_collector.EpisodeBuffer(
            id=number,
            observations=_stack([*(step.observation for step in steps), last]),
            actions=np.array([step.action for step in steps]),
            rewards=rewards,
            terminations=end[0],
            truncations=end[1],
        )


def _stack(observations: list[Any]) -> Any:
    """Return observations as one array, or as a dictionary of arrays."""
    if isinstance(observations[0], dict):
        return {key: _stack([each[key] for each in observations]) for key in observations[0]}
    return np.stack(observations)
