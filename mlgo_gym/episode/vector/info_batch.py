"""Infos of several environments as one, in the format of `gymnasium.vector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.episode import Episode
from mlgo_gym.tasks.infos import PendingDecision, absent_choices, decision_columns
from mlgo_gym.tasks.task import Task


def batch_infos(infos: Mapping[int, Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Return one info: per key an array over environments, and under `_key` booleans of the environments that have it.

    The result equals that of Gymnasium's `VectorEnv._add_info`, which is slower. Where that raises, because a value
    does not fit into an array of the first one's type, the array has dtype object. `infos` is by position, of `size`.
    """
    keys: dict[str, list[int]] = {}
    for position, info in infos.items():
        for key in info:
            if key in keys:
                keys[key].append(position)
            else:
                keys[key] = [position]
    batch: dict[str, Any] = {}
    for key, positions in keys.items():
        first = infos[positions[0]][key]
        if isinstance(first, dict) and key != "final_obs":
            batch[key] = batch_infos({position: infos[position][key] for position in positions}, size)
        else:
            values = [infos[position][key] for position in positions]
            array = _array(first, size) if key != "final_obs" else np.full(size, None, object)
            try:
                _fill(array, positions, values)
            except (TypeError, ValueError):
                array = np.full(size, None, object)
                _fill(array, positions, values)
            batch[key] = array
        present = np.zeros(size, np.bool_)
        present[positions] = True
        batch[f"_{key}"] = present
    return batch


def decision_infos(task: Task, episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what `batch_infos()` returns for the infos of `decision_info()` of episodes with a decision; faster."""
    pending = [
        PendingDecision(task, episode.decision, episode.module, episode.decisions, episode.contexts)
        for episode in episodes
        if episode.decision is not None
    ]
    info: dict[str, Any] = {}
    present = _all_true(len(episodes))
    for key, values in decision_columns(pending).items():
        if [True for value in values if value is None]:
            info |= batch_infos(
                {row: {key: value} for row, value in enumerate(values) if value is not None}, len(values)
            )
        else:
            info[key] = np.array(values) if isinstance(values[0], (int, np.ndarray)) else _objects(values)
            info[f"_{key}"] = present
    return info


def add_absent(info: dict[str, Any], task: Task, size: int) -> None:
    """Add `default_action` and `action_mask` if no environment has them, because all episodes are over.

    So `info["default_action"]` is always a valid argument of `step()`, which ignores it after the end of an episode.
    The added values are zeros, and their booleans are False.
    """
    for key, value in absent_choices(task).items():
        if key not in info:
            info[key], info[f"_{key}"] = _array(value, size), np.zeros(size, np.bool_)


@lru_cache
def _all_true(size: int) -> npt.NDArray[np.bool_]:
    """Return a shared, read-only array of True."""
    present = np.ones(size, np.bool_)
    present.flags.writeable = False
    return present


def unbatch_infos(batch: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Return the info of each environment from a batched info; numbers stay NumPy scalars.

    A key without a `_key` belongs to every environment.
    """
    infos: list[dict[str, Any]] = [{} for _ in range(size)]
    for key, values in batch.items():
        if key.startswith("_") and key[1:] in batch:
            continue
        each = unbatch_infos(values, size) if isinstance(values, dict) else values
        present = batch.get(f"_{key}")
        for position in range(size) if present is None else np.flatnonzero(present).tolist():
            infos[position][key] = each[position]
    return infos


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    array = np.empty(len(values), object)
    # NumPy would take the fields of a tuple for elements if it were given the whole sequence.
    for number, value in enumerate(values):
        array[number] = value
    return array


def _fill(array: npt.NDArray[Any], positions: list[int], values: list[Any]) -> None:
    for position, value in zip(positions, values, strict=True):
        array[position] = value


def _array(value: Any, size: int) -> npt.NDArray[Any]:
    if type(value) in (int, float, bool) or isinstance(value, np.number):
        return np.zeros(size, type(value))
    if isinstance(value, np.ndarray):
        return np.zeros((size, *value.shape), value.dtype)
    return np.full(size, None, object)
