"""The labels of `mlgo/InlineBandit-v0` as arrays, by the arguments of the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.corpus.splits import is_part
from mlgo_gym.errors import MlgoError, UnknownArgumentError
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


class BanditArguments(TypedDict, total=False):
    """The arguments of both environments."""

    labels: GivenLabels
    callee_features: bool
    split: Split
    reward: Reward
    normalize: bool


_DEFAULTS: BanditArguments = {
    "labels": "Os",
    "callee_features": False,
    "split": "train",
    "reward": "weighted",
    "normalize": False,
}


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


def label_table(arguments: BanditArguments) -> LabelTable:
    """Return the labels that the arguments of an environment name.

    Raises:
        UnknownArgumentError: An argument is unknown.
        MlgoError: An argument has another value, or no label fits.
    """
    for name in arguments:
        if name not in _DEFAULTS:
            close = get_close_matches(name, _DEFAULTS, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UnknownArgumentError(
                f"unexpected keyword argument {name!r}; {hint}expected {', '.join(sorted(_DEFAULTS))}"
            )
    given: dict[str, Any] = {**_DEFAULTS, **arguments}
    for name, words in (("split", get_args(Split)), ("reward", get_args(Reward))):
        if given[name] not in words:
            raise MlgoError(f"expected {name} as one of {', '.join(words)}, got {given[name]!r}; correct {name}")
    for name in ("callee_features", "normalize"):
        if not isinstance(given[name], bool):
            raise MlgoError(f"expected {name} as True or False, got {given[name]!r}; correct {name}")
    paths = _paths(given["labels"], given["callee_features"])
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    versions = tuple(
        (status.st_size, status.st_mtime_ns) for file in files if file.exists() for status in [file.stat()]
    )
    return _load(tuple(paths), versions, given["callee_features"], given["split"], given["reward"], given["normalize"])


@lru_cache(maxsize=4)
def _load(
    paths: tuple[Path, ...],
    versions: tuple[tuple[int, int], ...],
    callee_features: bool,
    split: Split,
    reward: Reward,
    normalize: bool,
) -> LabelTable:
    """Read labels; equal environments share them while the files keep their sizes and times."""
    del versions
    found = _read(list(paths), callee_features)
    names, observations = found.features, found.observations.astype(np.float32)
    normalization, unbounded = None, (-np.inf, np.inf)
    low, high = np.array([BOUNDS.get(name, unbounded) for name in names], np.float32).T
    rows = _rows(found, split)
    if normalize:
        names = network_features(found.features)
        observations = observations[:, [found.features.index(name) for name in names]]
        fitted = _rows(found, "fit") if split == "valid" else rows
        normalization = Normalization.fit(observations[fitted], names)
        observations = normalization(observations)
        low, high = (np.full(len(names), bound, np.float32) for bound in normalization.bounds)
    labels = found.select(rows)
    savings = np.sign(labels.bytes) * labels.weights if reward == "weighted" else labels.bytes
    observations = np.ascontiguousarray(observations[rows])
    space = gym.spaces.Box(low, high, dtype=np.float32)
    return LabelTable(
        labels, names, normalization, space, observations, savings.astype(np.float64), labels.bytes.astype(np.int64)
    )


def _paths(labels: GivenLabels, callee_features: bool) -> list[Path]:
    if isinstance(labels, str) and (labels, callee_features) in BUNDLED:
        return [_FOLDER / f"{name}.parquet" for name in BUNDLED[labels, callee_features]]
    if isinstance(labels, str | os.PathLike):
        return [Path(labels)]
    if not isinstance(labels, Sequence) or not all(isinstance(path, str | os.PathLike) for path in labels):
        raise MlgoError(f"expected labels as 'Os', 'Oz', a path or a list of paths, got {labels!r}; correct it")
    return [Path(path) for path in labels]


def _read(paths: list[Path], callee_features: bool) -> Labels:
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
