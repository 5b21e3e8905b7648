"""`Normalization`: features of very different sizes become numbers of similar size, by tables fitted once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

METHODS = ("signed_log", "standard", "log_standard", "quantiles")
"""Methods of `Normalization`, whose documentation describes them."""

CLIP = 5.0
"""Standardised features are clipped to this number of standard deviations on both sides."""

FORMAT = 1

# Python numbers would be converted at every call, which takes longer than the operation.
_MOST, _LEAST = np.float32(CLIP), np.float32(-CLIP)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Normalization:
    """Turns raw features into numbers of similar size, in environments and in policies.

    | method | normalized feature |
    |---|---|
    | `signed_log` | `sign(x) · log(1 + abs(x))`; nothing is fitted |
    | `standard` | `(x - mean) / deviation`, within ±5 |
    | `log_standard` | the signed logarithm, standardised, within ±5 |
    | `quantiles` | rank among the quantiles, from -1 to 1; equal values have the middle of their ranks |

    Features that are constant in the fitted observations are only shifted, to 0.

    Attributes:
        method: one of `METHODS`.
        names: names of the features, in order.
        center: subtracted first, float32 of shape (features,).
        scale: then divided by, float32 of shape (features,); never 0.
        quantiles: for `quantiles`, ascending, float32 of shape (features, quantiles); else of shape (features, 0).

    Raises:
        MlgoError: the method is unknown, or the tables have other shapes.
    """

    method: str
    names: tuple[str, ...]
    center: Floats
    scale: Floats
    quantiles: Floats
    _factor: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_method(self.method)
        count = len(self.names)
        shapes = (self.center.shape, self.scale.shape, self.quantiles.shape[:1], self.quantiles.ndim)
        if shapes != ((count,), (count,), (count,), 2) or not count:
            raise MlgoError(f"expected tables of {count} features, got the shapes {shapes}; fit it again")
        if not all(np.isfinite(table).all() for table in (self.center, self.scale, self.quantiles)):
            raise MlgoError("expected finite numbers in the tables of a normalization, got others; fit it again")
        if (self.method == "quantiles") != bool(self.quantiles.shape[1]) or not self.scale.all():
            raise MlgoError("expected quantiles for the method `quantiles` alone, and no scale of 0; fit it again")
        amount = self.quantiles.shape[1]
        factor = np.full(amount, 1 / amount) if amount else 1 / self.scale
        object.__setattr__(self, "_factor", factor.astype(np.float32))

    @classmethod
    def fit(
        cls,
        observations: npt.ArrayLike,
        names: Sequence[str],
        method: str = "log_standard",
        *,
        quantiles: int = 64,
    ) -> Normalization:
        """Return the normalization of recorded observations.

        Args:
            observations: raw features of shape (decisions, features), at least one decision.
            names: names of the features.
            method: one of `METHODS`.
            quantiles: number of quantiles for `quantiles` (≥ 2).

        Raises:
            MlgoError: there are no observations, they have another shape, or the method is unknown.
        """
        _check_method(method)
        values = np.asarray(observations, np.float64)
        if values.ndim != 2 or values.shape[1] != len(names) or not len(values) or quantiles < 2:
            raise MlgoError(
                f"expected observations of shape (decisions, {len(names)}) and quantiles ≥ 2, got the shape "
                f"{values.shape} and {quantiles} quantiles"
            )
        count = len(names)
        center, scale, table = np.zeros(count), np.ones(count), np.empty((count, 0))
        if method == "quantiles":
            table = np.quantile(values, (np.arange(quantiles) + 0.5) / quantiles, axis=0, method="lower").T
        elif method != "signed_log":
            if method == "log_standard":
                values = np.sign(values) * np.log1p(np.abs(values))
            center, deviation = values.mean(0), values.std(0)
            # Rounding alone is no variation.
            scale = np.where(deviation > 1e-6 * (1 + np.abs(center)), deviation, 1.0)
        parts = (np.ascontiguousarray(part, np.float32) for part in (center, scale, table))
        return cls(method, tuple(names), *parts)

    def __call__(self, values: Floats) -> Floats:
        """Return normalized features, a new array, of raw features of shape (…, features) in the order of `names`."""
        if self.method == "quantiles":
            sides: Floats = np.sign(values[..., None] - self.quantiles)
            # The mean of the signs; their sum is exact, and np.mean takes twice the time.
            mean: Floats = np.add.reduce(sides, axis=-1) * self._factor[0]
            return mean
        if self.method == "standard":
            result = values - self.center
        else:
            # A float32 logarithm differs between machines in its last bit; a float64 logarithm agrees in its first 24.
            result = np.log1p(np.abs(values), dtype=np.float64).astype(np.float32)
            np.copysign(result, values, out=result)
            if self.method == "signed_log":
                return result
            result -= self.center
        result *= self._factor
        np.minimum(result, _MOST, out=result)
        np.maximum(result, _LEAST, out=result)
        return result

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest normalized value of raw features within ±2^53."""
        if self.method == "quantiles":
            return -1.0, 1.0
        if self.method == "signed_log":
            return -37.0, 37.0
        return -CLIP, CLIP

    def columns(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """Return the column of each feature among `names`: the normalization applies to `values[..., columns]`."""
        return feature_columns("the normalization", self.names, names)

    def select(self, names: Sequence[str]) -> Normalization:
        """Return the normalization of some of the features, in the given order.

        Raises:
            MlgoError: a feature is missing.
        """
        chosen = feature_columns("the selection", names, self.names)
        return Normalization(self.method, tuple(names), self.center[chosen], self.scale[chosen], self.quantiles[chosen])

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json()` that JSON can hold exactly."""
        return {
            "format": FORMAT,
            "method": self.method,
            "names": list(self.names),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "quantiles": self.quantiles.tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Normalization:
        """Return the normalization of the data of `to_json()`.

        Raises:
            MlgoError: the data have another form.
        """
        try:
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            names = tuple(str(name) for name in value["names"])
            center, scale = (np.asarray(value[key], np.float32) for key in ("center", "scale"))
            table = np.asarray(value["quantiles"], np.float32).reshape(len(names), -1)
            return cls(value["method"], names, center, scale, table)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise MlgoError(
                f"expected the data of a normalization of format {FORMAT}, got {error!r}; fit it again"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the normalization as JSON."""
        write_atomically(Path(path), (json.dumps(self.to_json()) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Normalization:
        """Read a file of `save()`.

        Raises:
            MlgoError: there is no such file, or it is no normalization.
        """
        try:
            value = parse_json(read_untrusted(path))
        except (OSError, ValueError) as error:
            raise MlgoError(f"expected a normalization, got {path}: {error}; fit one") from error
        return cls.from_json(value)


def feature_columns(what: str, wanted: Sequence[str], names: Sequence[str]) -> npt.NDArray[np.intp]:
    """Return the columns of the wanted features among all names, or raise an MlgoError with the subject `what`."""
    position = {name: number for number, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        raise MlgoError(
            f"{what} needs {len(missing)} features that are missing: {', '.join(missing)}; got {', '.join(names)}; use "
            "the compiler and the environment that it was trained with"
        )
    return np.array([position[name] for name in wanted], np.intp)


def _check_method(method: str) -> None:
    if method not in METHODS:
        raise MlgoError(f"expected a method of {', '.join(METHODS)}, got {method!r}")
