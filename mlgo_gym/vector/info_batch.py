"""Infos of several environments as one, in the form that `gymnasium.vector` defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.episode import Episode
from mlgo_gym.tasks.task import Task


def batch_infos(infos: Mapping[int, Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Return one info in which each key has an array over environments, and `_key` says which of them have it.

    The result is that of Gymnasium's `VectorEnv._add_info`, made key by key instead of environment by environment.
    Where that raises, because a value does not fit into an array of the first one's kind, the array is one of objects.

    Args:
        infos: the info of each environment that has one, by its position.
        size: the number of environments.
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
    """Return what `batch_infos()` makes of infos that report a decision and nothing else, at less cost.

    Args:
        task: whose decisions they are.
        episodes: the episodes, each of which waits with a decision.
    """
    decisions = [episode.decision for episode in episodes if episode.decision is not None]
    present = _everywhere(len(episodes))
    info = {
        "module": np.array([episode.compilation.module.name for episode in episodes], object),
        "_module": present,
        "context": np.array([decision.context for decision in decisions], object),
        "_context": present,
        "decision": np.array([episode.decisions for episode in episodes]),
        "_decision": present,
        "default_action": np.array([task.default_action(decision) for decision in decisions]),
        "_default_action": present,
    }
    if episodes and episodes[0].contexts:
        info |= {
            "visit": np.array([decision.visit for decision in decisions]),
            "_visit": present,
            "position": np.array([decision.number for decision in decisions]),
            "_position": present,
        }
    if episodes and episodes[0].calls:
        # A call is a tuple: an array of objects would take its fields for elements.
        calls = np.empty(len(decisions), object)
        for number, decision in enumerate(decisions):
            calls[number] = decision.call
        info |= {"call": calls, "_call": present}
    if task.masked:
        info["action_mask"] = np.array([task.action_mask(decision) for decision in decisions])
        info["_action_mask"] = present
    return info


def add_absent(info: dict[str, Any], task: Task, size: int) -> None:
    """Add clang's own choices and the masks where no environment has them, because all episodes are over.

    So `info["default_action"]` is always something to step with: what is taken at an end is ignored.

    Args:
        info: a batched info; what is added is zeros, marked as present nowhere.
        task: whose decisions they are.
        size: the number of environments.
    """
    space = task.action_space
    absent: dict[str, Any] = {"default_action": 0}
    if not isinstance(space, gym.spaces.Discrete):
        absent["default_action"] = np.zeros(space.shape or (), space.dtype)
    elif task.masked:
        absent["action_mask"] = np.zeros(int(space.n), np.int8)
    for key, value in absent.items():
        if key not in info:
            info[key], info[f"_{key}"] = _array(value, size), np.zeros(size, np.bool_)


@lru_cache
def _everywhere(size: int) -> npt.NDArray[np.bool_]:
    """Return booleans that are all true, for all to share and none to write to."""
    present = np.ones(size, np.bool_)
    present.flags.writeable = False
    return present


def unbatch_infos(batch: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Return the info of each environment, out of what `batch_infos()` has joined.

    Numbers stay NumPy's. A key without a `_key` beside it is taken to be present everywhere.

    Args:
        batch: the batched info.
        size: the number of environments.
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


def _fill(array: npt.NDArray[Any], positions: list[int], values: list[Any]) -> None:
    for position, value in zip(positions, values, strict=True):
        array[position] = value


def _array(value: Any, size: int) -> npt.NDArray[Any]:
    """Return an empty array for values like this one."""
    if type(value) in (int, float, bool) or isinstance(value, np.number):
        return np.zeros(size, type(value))
    if isinstance(value, np.ndarray):
        return np.zeros((size, *value.shape), value.dtype)
    return np.full(size, None, object)
