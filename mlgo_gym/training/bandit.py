"""`mlgo/InlineBandit-v0`: inlining decisions whose actions have both been compiled already, as a contextual bandit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from mlgo_gym.corpus.modules.sampling import is_part
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.labels import Labels, read_labels

Split = Literal["train", "fit", "valid"]
Reward = Literal["weighted", "bytes"]

BUNDLED = {
    ("Os", False): ("Os",),
    ("Os", True): ("Os-with-calls",),
    ("Oz", False): ("Oz", "Oz-around-the-box"),
    ("Oz", True): ("Oz-with-calls", "Oz-around-calls"),
}
"""Names of the bundled files of labels, by optimisation level and whether they have callee features."""

_FOLDER = Path(__file__).parent / "bundled_labels"
_SPACE_LIMIT = 2.0**53  # as in `mlgo/Inline-v0`


class InlineBanditVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """Approximates `mlgo/Inline-v0` without a compiler: one labelled decision is one episode of one step.

    A label has the change of the module's size if this one decision is changed and all others are made by a policy.
    Decisions of one module depend on each other, which this environment does not show: evaluate what was learned with
    `mlgo_gym.evaluate`, on the compiler.

    `gymnasium.make_vec("mlgo/InlineBandit-v0", num_envs=1024)` makes one. Each step draws `num_envs` labels at random
    with replacement.

    ## Observation space

    `Box` of float32 and shape (features,): the features of `mlgo/Inline-v0`, named by `feature_names`.

    ## Action space

    `Discrete(2)`: 0 keeps the call, 1 inlines it.

    ## Rewards

    The saving of the chosen action against the other one: positive for the smaller module, negative for the larger
    one, 0 if both are equal. With `reward="weighted"` the saving is `bytes**0.8 / text**0.5`, times the square root of
    the number of decisions for which the label stands, divided by its mean over the labels that are not 0, and at most
    20; this is the weight of a label in `mlgo-gym train imitation`. With `reward="bytes"` it is bytes.

    ## Episode end

    Every step terminates. The environment restarts in the same step (`AutoresetMode.SAME_STEP`): the info has
    `final_obs`, which is 0 everywhere, and `final_info`, whose `bytes` are the saved bytes, int64 of shape (num_envs,).

    Args:
        num_envs: Number of labels per step (≥ 1).
        labels: `"Os"` or `"Oz"`, the bundled labels of that optimisation level; or files and folders of
            `mlgo-gym label`.
        callee_features: Whether observations have the callee features.
        split: `"train"`, all labels, or one of its parts `"fit"` and `"valid"`. A hash of the module's name without its
            first folder decides. The bundled labels are of training modules, in the parts of `Corpus.split()`.
        reward: `"weighted"` or `"bytes"`.
        normalize: Normalize observations once by `log_standard`, fitted to all labels before the split, and omit
            features that identify the module. `normalization` is the table for `NormalizeFeatures` and `save_sb3`.

    Attributes:
        feature_names: Names of the elements of an observation.
        normalization: The normalization of the observations; None without `normalize`.
        labels: The labels of the split.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: an argument has another value, there are no labels, or they lack the callee features.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "Os",
        callee_features: bool = False,
        split: Split = "train",
        reward: Reward = "weighted",
        normalize: bool = False,
    ) -> None:
        for name, value, words in (("split", split, get_args(Split)), ("reward", reward, get_args(Reward))):
            if value not in words:
                raise MlgoError(f"expected {name} as one of {', '.join(words)}, got {value!r}")
        if num_envs < 1:
            raise MlgoError(f"expected num_envs ≥ 1, got {num_envs}")
        found = _read(labels, callee_features)
        self.normalization: Normalization | None = None
        self.feature_names = found.features
        observations = found.observations.astype(np.float32)
        low, high = -_SPACE_LIMIT, _SPACE_LIMIT
        if normalize:
            self.feature_names = network_features(found.features)
            columns = [found.features.index(name) for name in self.feature_names]
            self.normalization = Normalization.fit(observations[:, columns], self.feature_names)
            observations = self.normalization(observations[:, columns])
            low, high = self.normalization.bounds
        chosen = _rows(found, split)
        self.labels = found.select(chosen)
        self._observations = np.ascontiguousarray(observations[chosen])
        # Bytes that keeping the call saves; inlining it saves the opposite.
        self._bytes = self.labels.bytes.astype(np.int64)
        weighted = np.sign(self.labels.bytes) * self.labels.weights
        self._savings = weighted if reward == "weighted" else self.labels.bytes
        self.num_envs = num_envs
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = gym.spaces.Box(low, high, self._observations.shape[1:], np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended, self._not_truncated = np.ones(num_envs, np.bool_), np.zeros(num_envs, np.bool_)
        self._final = np.zeros((num_envs, *self._observations.shape[1:]), np.float32)
        self._shown: npt.NDArray[np.int64] | None = None

    def reset(  # type: ignore[override, unused-ignore]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Return the first observations, float32 of shape (num_envs, features), and an empty info.

        Args:
            seed: source of the labels; of a list, the first one.
            options: none are known.
        """
        super().reset(seed=seed if seed is None or isinstance(seed, int) else seed[0], options=options)
        return self._draw(), {}

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[Any, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Return the next observations, the rewards of the actions, and that every episode has terminated.

        Raises:
            ActionError: an action is neither 0 nor 1, or there are not `num_envs` of them.
            MlgoError: `reset()` was not called.
        """
        if self._shown is None:
            raise MlgoError("expected reset() before step(), got none; call reset() first")
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or not ((given == 0) | (given == 1)).all():
            raise ActionError(f"expected {self.num_envs} actions of 0 or 1, got {actions!r}")
        signs = 1 - 2 * given.astype(np.int64)
        rewards, saved = signs * self._savings[self._shown], signs * self._bytes[self._shown]
        infos = {"final_obs": self._final, "final_info": {"bytes": saved}}
        return self._draw(), rewards, self._ended.copy(), self._not_truncated.copy(), infos

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute once for each environment; they share it."""
        return (getattr(self, name),) * self.num_envs

    def _draw(self) -> npt.NDArray[np.float32]:
        self._shown = self.np_random.integers(len(self._observations), size=self.num_envs)
        drawn: npt.NDArray[np.float32] = self._observations.take(self._shown, axis=0)
        return drawn


class InlineBanditEnv(gym.Env[npt.NDArray[np.float32], int]):
    """Decide on labelled calls, without a compiler: one environment of `InlineBanditVectorEnv`, with its arguments.

    The info of a step has `bytes`, the bytes saved.
    """

    def __init__(self, **options: Any) -> None:
        self._envs = InlineBanditVectorEnv(1, **options)
        self.feature_names, self.normalization = self._envs.feature_names, self._envs.normalization
        self.labels = self._envs.labels
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Return the observation of a label, float32 of shape (features,), and an empty info."""
        super().reset(seed=seed, options=options)
        return self._envs.reset(seed=seed)[0][0], {}

    def step(self, action: int) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Return the last observation, all 0, the reward, and that the episode has terminated."""
        _, rewards, _, _, info = self._envs.step(np.array([action]))
        last = np.zeros(len(self.feature_names), np.float32)
        return last, float(rewards[0]), True, False, {"bytes": int(info["final_info"]["bytes"][0])}


def _read(labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], callee_features: bool) -> Labels:
    if isinstance(labels, str) and (labels, callee_features) in BUNDLED:
        paths = [_FOLDER / f"{name}.parquet" for name in BUNDLED[labels, callee_features]]
    else:
        paths = [Path(path) for path in ([labels] if isinstance(labels, str | os.PathLike) else labels)]
    found = read_labels(paths)
    names = [name for name in found.features if callee_features or name not in CALLEE_FEATURES]
    missing = [name for name in CALLEE_FEATURES if name not in names]
    if callee_features and missing:
        raise MlgoError(
            f"expected labels with callee features, got none of {', '.join(missing)}; run mlgo-gym label "
            "--callee-features, or omit callee_features"
        )
    return found.select_features(names)


def _rows(labels: Labels, split: Split) -> npt.NDArray[np.bool_]:
    names, inverse = np.unique(labels.modules, return_inverse=True)
    # The first folder is the dataset.
    parts = np.array([is_part(name.partition("/")[2] or name, split, test_fraction=0) for name in names.tolist()])
    chosen: npt.NDArray[np.bool_] = parts[inverse]
    if not chosen.any():
        raise MlgoError(
            f"expected labels of the split {split!r}, got {len(names)} modules in other splits; use 'train'"
        )
    return chosen
