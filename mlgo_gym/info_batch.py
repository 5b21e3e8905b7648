"""Infos of several environments as one, in the form that `gymnasium.vector` defines."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_PLAIN: dict[type, type] = {int: int, float: float, bool: bool, str: object}
"""Plain values, and the kind of array that has one for each environment."""


def batch_infos(infos: Mapping[int, Mapping[str, Any]], size: int) -> dict[str, Any]:
    """Return one info in which each key has an array over environments, and `_key` says which of them have it.

    The result is that of Gymnasium's `VectorEnv._add_info`, made key by key instead of environment by environment.
    Where that raises, because a value does not fit into an array of the first one's kind, the array is one of objects.

    Args:
        infos: the info of each environment that has one, by its position.
        size: the number of environments.
    """
    if len(infos) == size and (columns := _columns([infos[position] for position in range(size)])) is not None:
        return columns
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


def _columns(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the batch of infos that are all alike, one plain value per key; None where they are not."""
    keys = infos[0].keys()
    if any(info.keys() != keys for info in infos):
        return None
    present = everywhere(len(infos))
    batch: dict[str, Any] = {}
    for key in keys:
        column = _column([info[key] for info in infos])
        if column is None:
            return None
        batch[key], batch[f"_{key}"] = column, present
    return batch


def _column(values: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Return an array of values that are all of one plain type; None where they are not."""
    kind = type(values[0])
    for value in values:
        if type(value) is not kind:
            return None
    if kind in _PLAIN:
        with contextlib.suppress(OverflowError):
            return np.array(values, _PLAIN[kind])
    elif kind is np.ndarray and len({(value.shape, value.dtype) for value in values}) == 1:
        return np.array(values)
    return None


@lru_cache
def everywhere(size: int) -> npt.NDArray[np.bool_]:
    """Return booleans that are all true, for all to share and none to write to."""
    present = np.ones(size, np.bool_)
    present.flags.writeable = False
    return present


def unbatch_infos(batch: Mapping[str, Any], size: int) -> list[dict[str, Any]]:
    """Return the info of each environment: what `batch_infos()` made one of.

    Numbers stay those of NumPy. What comes without saying who has it, everybody has.

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
