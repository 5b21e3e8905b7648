"""The labels of `mlgo/InlineBandit-v0` as arrays, by the arguments of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.corpus.splits import is_part
from mlgo_gym.episode.argument_types import check_types
from mlgo_gym.errors import MlgoError, UnknownArgumentError, did_you_mean
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.tasks.feature_table import BOUNDS
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.labels import Labels, read_labels

Split = Literal["train", "fit", "valid"]
Reward = Literal["weighted", "bytes"]
GivenLabels = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

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

    labels: GivenLabels = "Os"
    callee_features: bool = False
    split: Split = "train"
    reward: Reward = "weighted"
    normalize: bool = False

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
            "--callee-features, or omit callee_features"
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
        low, high = (np.full(len(names), bound, np.float32) for bound in normalization.bounds)
    labels = stored.select(rows)
    savings = np.sign(labels.bytes) * labels.weights if options.reward == "weighted" else labels.bytes
    observations, space = np.ascontiguousarray(observations[rows]), gym.spaces.Box(low, high, dtype=np.float32)
    return LabelTable(
        labels, names, normalization, space, observations, savings.astype(np.float64), labels.bytes.astype(np.int64)
    )


def _rows(labels: Labels, split: Split) -> npt.NDArray[np.bool_]:
    names, inverse = np.unique(labels.modules, return_inverse=True)
    # The first folder is the dataset.
    parts = np.array([is_part(name.partition("/")[2] or name, split, test_fraction=0) for name in names.tolist()])
    rows: npt.NDArray[np.bool_] = parts[inverse]
    if not rows.any():
        raise MlgoError(
            f"expected labels of the split {split!r}, got {len(names)} modules in other splits; use 'train'"
        )
    return rows
