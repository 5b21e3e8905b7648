"""`VecEnvAdapter`: our vector environment as a `VecEnv` of stable-baselines3, sb3-contrib's masks included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.vector.info_batch import unbatch_infos
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector

try:
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

_MASKS = "action_masks"


class VecEnvAdapter(VecEnv):
    """A vector environment in the form that stable-baselines3 takes.

    ```python
    envs = gym.make_vec("mlgo/RegAllocEvict-v0", num_envs=4, autoreset_mode="SameStep")
    model = MaskablePPO("MultiInputPolicy", VecMonitor(VecEnvAdapter(envs)))
    ```

    At an episode's end the info is that of its last step, with `terminal_observation` and `TimeLimit.truncated`; the
    info of the next episode's first decision is in `reset_infos`. `seed()` and `set_options()` are for the next
    `reset()`.

    Args:
        envs: the vector environment, in Gymnasium's wrappers if it likes, with `autoreset_mode="SameStep"`.

    Raises:
        MlgoError: another kind of environment, another mode, or one that returns a part of its environments at a time.
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        self._inner = as_vector(envs)
        if self._inner.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise MlgoError(
                "stable-baselines3 needs the next episode in the same step: make the environment with "
                f'autoreset_mode="SameStep", not {self._inner.autoreset_mode.value!r}'
            )
        if self._inner.batch_size != self._inner.num_envs:
            raise MlgoError(
                f"stable-baselines3 steps all environments at once: leave batch_size={self._inner.batch_size} away"
            )
        self.envs = cast("CompilerVectorEnv", envs)  # wrappers have its reset() and step()
        self._actions: npt.NDArray[Any] = np.empty(0)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> VecEnvObs:
        """Begin an episode in every environment and return the first observations, one row for each."""
        seed = self._seeds if any(each is not None for each in self._seeds) else None
        names = {name for options in self._options for name in options}
        options = {name: [each.get(name) for each in self._options] for name in names}
        observations, info = self.envs.reset(seed=seed, options=options)
        self.reset_infos = unbatch_infos(info, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        batch: VecEnvObs = observations
        return batch

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions, one for each environment, for `step_wait()`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Return observations, rewards (float32), whether an episode has ended (bool), and one info for each."""
        observations, rewards, terminations, truncations, info = self.envs.step(self._actions)
        dones = terminations | truncations
        infos = unbatch_infos(info, self.num_envs)
        for row in np.flatnonzero(dones).tolist():
            first = infos[row]
            infos[row] = {**first.pop("final_info"), "terminal_observation": first.pop("final_obs")}
            self.reset_infos[row] = first
        for info, termination, truncation in zip(infos, terminations, truncations, strict=True):
            info["TimeLimit.truncated"] = bool(truncation and not termination)
        return observations, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """End every compile. Idempotent."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of some environments, by default of all."""
        values = self._inner.get_attr(attr_name)
        return [values[index] for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse to change an environment: they have what they are in common.

        Raises:
            MlgoError: always.
        """
        del value, indices
        raise MlgoError(f"{attr_name} was to be set, and environments cannot be changed: make them with it")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return what a method of some environments returns; `action_masks` is all ones where all is legal."""
        if method_name == _MASKS:
            values: Sequence[Any] | npt.NDArray[np.int8] = self._masks()
        else:
            values = self._inner.call(method_name, *method_args, **method_kwargs)
        return [values[index] for index in self._get_indices(indices)]

    def _masks(self) -> npt.NDArray[np.int8]:
        masks = self._inner.action_masks()
        if masks is None:
            raise MlgoError(f"masks are for discrete actions, and the action space is {self.action_space}")
        return masks

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return False for each environment: none has wrappers of its own."""
        del wrapper_class
        return [False for _ in self._get_indices(indices)]
