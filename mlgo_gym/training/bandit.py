"""`mlgo/InlineBandit-v0`: inlining decisions whose actions have both been compiled already, as a contextual bandit."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import EzPickle, seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.episode.argument_types import check_types, whole_number
from mlgo_gym.episode.vector.in_process import InProcessVectorEnv, spread_seeds
from mlgo_gym.errors import ActionError, MlgoError, NoEpisodeError, UnknownArgumentError, did_you_mean
from mlgo_gym.policies.network import CLIP, Normalization
from mlgo_gym.tasks.features import BOUNDS
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


@dataclass(frozen=True, slots=True)
class BanditOptions:
    """The arguments of both environments."""

    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "Os"
    callee_features: bool = False
    split: Split = "train"
    reward: Reward = "weighted"
    normalize: bool = False
    render_mode: None = None

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def paths(self) -> list[Path]:
        """The files and folders of labels."""
        if isinstance(self.labels, str) and (self.labels, self.callee_features) in BUNDLED:
            return [_FOLDER / f"{name}.parquet" for name in BUNDLED[self.labels, self.callee_features]]
        return list(map(Path, [self.labels] if isinstance(self.labels, str | os.PathLike) else self.labels))


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of a split as arrays, one row each."""

    labels: Labels
    feature_names: tuple[str, ...]
    normalization: Normalization | None
    observation_space: gym.spaces.Box
    observations: npt.NDArray[np.float32]
    savings: npt.NDArray[np.float64]
    """Reward of keeping the call; inlining it has the opposite one."""
    bytes: npt.NDArray[np.int64]


def label_table(arguments: Mapping[str, Any]) -> LabelTable:
    """Return the labels that the arguments of an environment name.

    Raises:
        UnknownArgumentError: An argument is unknown.
        MlgoError: An argument has another value, or no label fits.
    """
    names = [option.name for option in fields(BanditOptions)]
    for name in arguments:
        if name not in names:
            hint = did_you_mean(name, names)
            raise UnknownArgumentError(f"unexpected keyword argument {name!r}{hint}; expected {', '.join(names)}")
    options = BanditOptions(**arguments)
    files = [file for path in options.paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    versions = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
    return _load(replace(options, labels=""), tuple(options.paths), tuple(versions))


@lru_cache(maxsize=4)
def _load(options: BanditOptions, paths: tuple[Path, ...], _versions: tuple[tuple[int, int], ...]) -> LabelTable:
    """Read labels; equal environments share them while the files keep their sizes and times."""
    stored = read_labels(paths)
    missing = [name for name in CALLEE_FEATURES if name not in stored.features]
    if options.callee_features and missing:
        raise MlgoError(
            f"expected labels with callee features, got none of {', '.join(missing)}; run mlgo-gym label "
            "--set callee_features=true, or omit callee_features"
        )
    if not options.callee_features:
        stored = stored.select_features([name for name in stored.features if name not in CALLEE_FEATURES])
    rows = _rows(stored, options.split)
    names, observations = stored.features, stored.observations.astype(np.float32)
    normalization = None
    low, high = np.array([BOUNDS.get(name, (-np.inf, np.inf)) for name in names], np.float32).T
    if options.normalize:
        names = network_features(stored.features)
        observations = observations[:, [stored.features.index(name) for name in names]]
        fitted = _rows(stored, "fit") if options.split == "valid" else rows
        normalization = Normalization.fit(observations[fitted], names)
        observations = normalization(observations)
        low, high = (np.full(len(names), bound, np.float32) for bound in (-CLIP, CLIP))
    labels = stored.select(rows)
    savings = np.sign(labels.bytes) * labels.weights if options.reward == "weighted" else labels.bytes
    observations, space = np.ascontiguousarray(observations[rows]), gym.spaces.Box(low, high, dtype=np.float32)
    return LabelTable(
        labels, names, normalization, space, observations, savings.astype(np.float64), labels.bytes.astype(np.int64)
    )


def _rows(labels: Labels, split: Split) -> npt.NDArray[np.bool_]:
    rows = labels.in_part(split)
    if not rows.any():
        raise MlgoError(f"expected labels of the split {split!r}, got labels of other splits alone; label its modules")
    return rows


class InlineBanditEnv(gym.Env[Any, Any], EzPickle):
    """Decide, call by call, whether clang inlines, from labels and without a compiler.

    A contextual bandit that approximates `mlgo/Inline-v0`: one labelled decision is one episode of one step. A label
    has the change of the module's size if this one decision is changed and all others are made by a policy. Decisions
    of one module depend on each other, which this environment does not show. So evaluate the learned policy with
    `mlgo_gym.evaluate` on `mlgo/Inline-v0`. `gymnasium.make_vec("mlgo/InlineBandit-v0", num_envs=1024)` makes many
    environments that share one table of labels.

    ## Observation space

    A `Box` of float32 and shape `(features,)`: the features of `mlgo/Inline-v0`, named by `feature_names`. The last
    observation of an episode is 0 everywhere.

    ## Action space

    `Discrete(2)`: 0 keeps the call, 1 inlines it. Another action is an error.

    ## Rewards

    The saving of the action against the other one: positive for the smaller module, negative for the larger one, 0 if
    both are equal. With `reward="weighted"` the saving is `bytes**0.8 / text**0.5`, times the square root of the number
    of decisions for which the label stands, divided by its mean over the labels that are not 0, and at most 20. This is
    the weight of a label in `mlgo-gym train imitation`. With `reward="bytes"` it is bytes.

    An episode starts at a label of the split, drawn uniformly with replacement, and every step is `terminated`. The
    info of a step has `bytes`, the bytes that the action saved.

    ## Arguments

    | argument | default | meaning |
    |---|---|---|
    | `labels` | `"Os"` | `"Os"` or `"Oz"`, the bundled labels of that level; or files and folders of `mlgo-gym label` |
    | `callee_features` | `False` | whether observations have the callee features |
    | `split` | `"train"` | `"train"`, or one of its parts `"fit"` and `"valid"` |
    | `reward` | `"weighted"` | `"weighted"` or `"bytes"` |
    | `normalize` | `False` | normalize observations, and omit features that identify the module |
    | `render_mode` | `None` | `None`: there is nothing to render |

    The parts are those of `Corpus.split()`; labels of test projects are in none. Normalization is
    fitted to the labels of the split, and for `"valid"` to those of `"fit"`. `normalization` is the argument of
    `NormalizeFeatures` and `read_sb3`.

    Attributes:
        feature_names: Names of the elements of an observation.
        normalization: The normalization of the observations; None without `normalize`.
        labels: The labels of the split.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: an argument is not possible, there are no labels, or they lack the callee features.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, **arguments: Any) -> None:
        EzPickle.__init__(self, **arguments)
        self.metadata = dict(type(self).metadata)  # wrappers and libraries write into what they find
        self._show(label_table(arguments))

    def _show(self, table: LabelTable) -> None:
        self._table, self._row = table, -1
        self.feature_names, self.normalization, self.labels = table.feature_names, table.normalization, table.labels
        self.observation_space = gym.spaces.Box(table.observation_space.low, table.observation_space.high)
        self.action_space = gym.spaces.Discrete(2)

    def reset(  # type: ignore[override, unused-ignore]  # as the other environments, by version of Gymnasium
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw a label; return its observation, float32 of shape (features,), and an empty info.

        Raises:
            MlgoError: there are options, of which none is known, or the seed is not an integer ≥ 0.
        """
        _refuse_options(options)
        super().reset(seed=spread_seeds(seed, 1)[0])
        self._row = int(self.np_random.integers(len(self._table.observations)))
        return self._table.observations[self._row].copy(), {}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Return the last observation, the reward, True, False, and the info.

        Raises:
            ActionError: no decision is pending, or the action is neither 0 nor 1.
        """
        if self._row < 0:
            raise NoEpisodeError(
                "expected a pending decision, got an episode that is over or not started; call reset()"
            )
        value = np.asarray(action)
        if value.size != 1 or value.item() not in (0, 1):
            raise ActionError(f"expected a legal action among [0, 1], got {action!r}; use one of these")
        row, sign, self._row = self._row, 1 - 2 * int(value.item()), -1
        last = np.zeros(self._table.observations.shape[1:], np.float32)
        info = {"bytes": sign * int(self._table.bytes[row])}
        return last, sign * float(self._table.savings[row]), True, False, info

    def action_masks(self) -> npt.NDArray[np.int8]:
        """Return 1 for each action, int8 of shape (2,): both are always legal."""
        return np.ones(2, np.int8)

    def render(self) -> None:
        """Return None: there is nothing to show."""


class InlineBanditVectorEnv(InProcessVectorEnv, EzPickle):
    """`InlineBanditEnv` many times over, in one table of labels; attributes and errors are the same.

    Each environment draws with its own generator, as those of Gymnasium's `SyncVectorEnv` do.

    Args:
        num_envs: Number of environments (≥ 1).
        autoreset_mode: Behaviour after the end of an episode, as of `CompilerVectorEnv`. With `NEXT_STEP` every second
            step is a reset.
        max_episode_steps: Number of steps after which an episode is also truncated (≥ 1). Default: no limit.
        arguments: Arguments of `InlineBanditEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **arguments: Any,
    ) -> None:
        limit = {"autoreset_mode": autoreset_mode, "max_episode_steps": max_episode_steps}
        EzPickle.__init__(self, num_envs, **limit, **arguments)
        super().__init__(num_envs, autoreset_mode)
        self._truncates = max_episode_steps is not None and whole_number("max_episode_steps", max_episode_steps, 1) == 1
        self._table = table = label_table(arguments)
        self.feature_names, self.normalization, self.labels = table.feature_names, table.normalization, table.labels
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = table.observation_space, gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._rows, self._started = np.full(self.num_envs, -1), np.zeros(self.num_envs, np.bool_)
        self._generators, self._seeds = map(
            list, zip(*(seeding.np_random() for _ in range(self.num_envs)), strict=True)
        )
        self._last = np.empty(self.num_envs, object)
        self._last[:] = list(np.zeros((self.num_envs, *table.observations.shape[1:]), np.float32))

    def reset(  # type: ignore[override, unused-ignore]  # as the other environments, by version of Gymnasium
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Draw labels; return the observations, float32 of shape (num_envs, features), and an empty info.

        Args:
            seed: Seeds the environments with `seed`, `seed + 1`, …; or a list with one seed each.
            options: `reset_mask`: booleans of shape (num_envs,), the environments to reset.

        Raises:
            MlgoError: an option is unknown, or a seed is not an integer ≥ 0.
        """
        self._refuse_if_closed()
        others = dict(options or {})
        env_ids = self._reset_mask(others)
        _refuse_options(others)
        seeds = spread_seeds(seed, self.num_envs)
        for env_id in env_ids:
            if seeds[env_id] is not None:
                self._set_random(env_id, *seeding.np_random(seeds[env_id]))
        self._draw(env_ids)
        self._started[env_ids] = True
        return self._observe(), {}

    def step(
        self, actions: Any
    ) -> tuple[Any, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Return the next observations, the rewards of the actions, and which episodes have terminated.

        Raises:
            ActionError: an action is neither 0 nor 1, or an environment was not reset.
            MlgoError: there are not `num_envs` actions.
        """
        self._refuse_if_closed()
        values = np.asarray(actions)
        if values.shape != (self.num_envs,):
            length = len(values) if values.ndim else "one number"
            raise MlgoError(f"expected {self.num_envs} actions, one per environment, got {length}")
        rows = self._rows
        pending = rows >= 0
        next_step = self.autoreset_mode is AutoresetMode.NEXT_STEP
        if not pending.all() and not (next_step and self._started.all()):
            raise NoEpisodeError(
                f"environment {int(pending.argmin())}: expected a pending decision, got none; reset it first"
            )
        illegal = pending & (values != 0) & (values != 1)
        if illegal.any():
            env_id = int(illegal.argmax())
            raise ActionError(
                f"environment {env_id}: expected a legal action among [0, 1], got {values[env_id]!r}; use one of these"
            )
        signs = np.where(pending, 1 - 2 * (values == 1), 0)
        rewards, saved = signs * self._table.savings[rows], signs * self._table.bytes[rows]
        infos: dict[str, Any] = {"bytes": saved, "_bytes": pending} if pending.any() else {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            last = {"final_obs": self._last.copy(), "final_info": infos}
            infos = {**last, "_final_obs": pending.copy(), "_final_info": pending.copy()}
            self._draw(range(self.num_envs))
        else:
            rows[pending] = -1
            if next_step and not pending.all():
                self._draw(np.flatnonzero(~pending).tolist())
        return self._observe(), rewards, pending.copy(), pending & self._truncates, infos

    def _draw(self, env_ids: Iterable[int]) -> None:
        count = len(self._table.observations)
        for env_id in env_ids:
            self._rows[env_id] = self._generators[env_id].integers(count)

    def _observe(self) -> npt.NDArray[np.float32]:
        observations: npt.NDArray[np.float32] = self._table.observations.take(self._rows, axis=0, mode="clip")
        observations[self._rows < 0] = 0
        return observations

    def action_masks(self) -> npt.NDArray[np.int8]:
        """Return 1 for each action, int8 of shape (num_envs, 2): both are always legal."""
        return np.ones((self.num_envs, 2), np.int8)

    def render(self) -> tuple[Any, ...]:
        """Return None for each environment: there is nothing to show."""
        return (None,) * self.num_envs

    def _make_view(self) -> InlineBanditEnv:
        view = object.__new__(InlineBanditEnv)
        EzPickle.__init__(view, **self._ezpickle_kwargs)
        view._show(self._table)
        return view

    def _update_view(self, env_id: int, view: gym.Env[Any, Any]) -> None:
        generator, seed = self._generators[env_id], self._seeds[env_id]
        view.__dict__.update(_row=int(self._rows[env_id]), _np_random=generator, _np_random_seed=seed)

    def _set_random(self, env_id: int, generator: np.random.Generator, seed: int = -1) -> None:
        self._generators[env_id], self._seeds[env_id] = generator, seed


def _refuse_options(options: Mapping[str, Any] | None) -> None:
    if options:
        raise MlgoError(f"expected no options of reset(), got {sorted(map(str, options))}; omit them")
