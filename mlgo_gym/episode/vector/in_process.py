"""The base of vector environments in one process: common arguments, calls to each environment, and batched infos."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from mlgo_gym.episode.argument_types import whole_number
from mlgo_gym.episode.episode import Episode
from mlgo_gym.errors import MlgoError
from mlgo_gym.tasks.infos import absent_choices
from mlgo_gym.tasks.task import Task

_REFUSED = {
    "step": "call step() of the vector environment",
    "reset": "call reset() of the vector environment, with options={'reset_mask': …} for some environments",
    "close": "call close() of the vector environment",
}
"""The methods that would advance one environment without the others, and what to do instead."""

_RANDOM = "np_random"


class InProcessVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """A vector environment whose environments run in this process, without an object of their own.

    `call()`, `get_attr()`, `set_attr()`, `np_random` and `np_random_seed` are those of Gymnasium's `SyncVectorEnv`:
    each environment has its own episode, actions and random generator. The arguments are those of `CompilerVectorEnv`.
    """

    def __init__(self, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        self.num_envs = whole_number("num_envs", num_envs, 1)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            modes = [mode.value for mode in AutoresetMode]
            raise MlgoError(f"expected autoreset_mode as one of {modes}, got {autoreset_mode!r}") from None
        self._views: dict[int, gym.Env[Any, Any]] = {}
        self._shared: frozenset[str] = frozenset()

    @abstractmethod
    def _make_view(self) -> gym.Env[Any, Any]:
        """Return a single environment for `_update_view()`."""

    @abstractmethod
    def _update_view(self, env_id: int, view: gym.Env[Any, Any]) -> None:
        """Let a single environment show the current episode of one of these."""

    @abstractmethod
    def _set_random(self, env_id: int, generator: np.random.Generator) -> None:
        """Replace the random generator of an environment."""

    def _view(self, env_id: int) -> gym.Env[Any, Any]:
        if env_id not in self._views:
            self._views[env_id] = view = self._make_view()
            self._shared = self._shared or frozenset({*dir(type(view)), *vars(view)})
        view = self._views[env_id]
        self._update_view(env_id, view)
        return view

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each environment, or its result if it is callable.

        Raises `AttributeError` if there is none, and `MlgoError` if it is private or would advance one environment
        without the others, such as `step`.
        """
        return tuple(self.call_some(range(self.num_envs), name, *args, **kwargs))

    def call_some(self, env_ids: Iterable[int], name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Return an attribute of some environments, or its result if it is callable; `call()` does it for all."""
        values = self.get_some(env_ids, name)
        return [value(*args, **kwargs) if callable(value) else value for value in values]

    def get_some(self, env_ids: Iterable[int], name: str) -> list[Any]:
        """Return an attribute of some environments; methods are not called."""
        if name in _REFUSED or name.startswith("_"):
            reason = _REFUSED.get(name, "it is private")
            raise MlgoError(f"expected a method that leaves the environments where they are, got {name!r}; {reason}")
        return [getattr(self._view(env_id), name) for env_id in env_ids]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment; `call()` it, as Gymnasium does."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: `np_random`, or a new one that `get_attr()` returns.

        `values` is a list or tuple with one value per environment, or one value for all. Raises `MlgoError` if all
        environments share the attribute, or the number of values differs.
        """
        values = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(values) != self.num_envs:
            raise MlgoError(f"expected {self.num_envs} values of {name!r}, one per environment, got {len(values)}")
        self.set_some(range(self.num_envs), name, values)

    def set_some(self, env_ids: Iterable[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute of some environments to a value each; `set_attr()` does it for all."""
        for env_id, value in zip(env_ids, values, strict=True):
            view = self._view(env_id)
            if name == _RANDOM:
                if not isinstance(value, np.random.Generator):
                    raise MlgoError(f"expected np_random as a numpy.random.Generator, got {value!r}")
                self._set_random(env_id, value)
            elif name.startswith("_") or name in self._shared:
                raise MlgoError(f"cannot set {name!r} of an environment: all share it; make the environments with it")
            else:
                setattr(view, name, value)

    @property  # type: ignore[misc]  # Gymnasium declares an attribute
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override] # as in `SyncVectorEnv`
        """The random generator of each environment."""
        return self.call(_RANDOM)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override] # as in `SyncVectorEnv`
        """The seed of each environment; -1 where `np_random` was set."""
        return self.call("np_random_seed")

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise MlgoError("expected an open vector environment, got a closed one; make another")

    def _reset_mask(self, options: dict[str, Any]) -> list[int]:
        """Remove `reset_mask` from the options of a reset, and return the numbers of its environments."""
        mask = options.pop("reset_mask", None)
        return list(range(self.num_envs)) if mask is None else self._masked("reset_mask", mask)

    def _masked(self, name: str, mask: npt.ArrayLike) -> list[int]:
        """Return the numbers of the environments of a mask."""
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise MlgoError(
                f"expected {name} as booleans of shape ({self.num_envs},) with at least one True, got {mask!r}"
            )
        numbers: list[int] = np.flatnonzero(mask).tolist()
        return numbers


def spread_seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Return one seed per environment as Gymnasium does: `seed`, `seed + 1`, …, or the given list."""
    if seed is None:
        return [None] * count
    if isinstance(seed, (int, np.integer)):
        first = whole_number("seed", seed, 0)
        return [first + env_id for env_id in range(count)]
    if isinstance(seed, str) or not hasattr(seed, "__len__"):
        raise MlgoError(f"expected seed as an integer ≥ 0 or a list of {count}, got {seed!r}")
    if len(seed) != count:
        raise MlgoError(f"expected {count} seeds, one per environment, got {len(seed)}")
    return [None if entry is None else whole_number("seed", entry, 0) for entry in seed]


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
        "module": np.array([episode.compile.compilation.module.name for episode in episodes], object),
        "context": np.array([decision.site.context for decision in decisions], object),
        "decision_index": np.array([len(episode.actions) for episode in episodes]),
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
