"""Infos of several environments as one, in the format of `gymnasium.vector`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.episode import Episode
from mlgo_gym.tasks.infos import absent_choices
from mlgo_gym.tasks.task import Task


def batch_infos(infos: Mapping[int, Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Return one info: per key an array over environments, and under `_key` booleans of the environments that have it.

    The result equals that of Gymnasium's `VectorEnv._add_info`, which is slower. Where that raises, because a value
    does not fit into an array of the first one's type, the array has dtype object. `infos` is by position, of `size`.
    """
    keys: dict[str, list[int]] = {}
    for position, info in infos.items():
        for key in info:
            keys.setdefault(key, []).append(position)
    batch: dict[str, Any] = {}
    for key, positions in keys.items():
        batch[key] = _batch(key, positions, [infos[position][key] for position in positions], size)
        batch[f"_{key}"] = present = np.zeros(size, np.bool_)
        present[positions] = True
    return batch


def plain_infos(task: Task, episodes: Sequence[Episode]) -> dict[str, Any]:
    """Return what `batch_infos()` returns for the infos of episodes with `has_plain_info`; faster."""
    decisions = [episode.pending() for episode in episodes]
    columns: dict[str, Any] = {
        "module": np.array([episode.compilation.module.name for episode in episodes], object),
        "context": np.array([decision.site.context for decision in decisions], object),
        "decision_index": np.array([episode.decisions for episode in episodes]),
        "default_action": np.array([task.default_action(decision) for decision in decisions]),
    }
    if task.masked:
        columns["action_mask"] = np.array([task.action_mask(decision) for decision in decisions])
    present = dict.fromkeys([f"_{key}" for key in columns], _all_true(len(episodes)))
    return columns | present


def _batch(key: str, positions: list[int], values: list[Any], size: int) -> Any:
    first = values[0]
    if key != "final_obs":
        if isinstance(first, dict):
            return batch_infos(dict(zip(positions, values, strict=True)), size)
        array = _array(first, size)
        try:
            return _filled(array, positions, values)
        except (TypeError, ValueError):
            pass
    return _filled(np.full(size, None, object), positions, values)


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


def _filled(array: npt.NDArray[Any], positions: list[int], values: list[Any]) -> npt.NDArray[Any]:
    # NumPy would take the fields of a tuple for elements if it were given the whole list.
    for position, value in zip(positions, values, strict=True):
        array[position] = value
    return array


def _array(value: Any, size: int) -> npt.NDArray[Any]:
    if type(value) in (int, float, bool) or isinstance(value, np.number):
        return np.zeros(size, type(value))
    if isinstance(value, np.ndarray):
        return np.zeros((size, *value.shape), value.dtype)
    return np.full(size, None, object)
