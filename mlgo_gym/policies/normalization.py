"""`Normalization`: features of very different sizes become numbers of similar size, by tables fitted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError

METHODS = ("standard", "log_standard")
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

    The method `standard` gives `(x - mean) / deviation`, within ±5. The method `log_standard` does so with
    `sign(x) · log(1 + abs(x))`. Features that are constant in the fitted observations are only shifted, to 0.

    Attributes:
        method: One of `METHODS`.
        names: Names of the features, in order.
        center: Subtracted first, float32 of shape (features,).
        scale: Then divided by, float32 of shape (features,); never 0.

    Raises:
        MlgoError: The method is unknown, or the tables have other shapes.
    """

    method: str
    names: tuple[str, ...]
    center: Floats
    scale: Floats
    factor: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise MlgoError(f"expected a method of {', '.join(METHODS)}, got {self.method!r}; fit it again")
        count = len(self.names)
        shapes = self.center.shape, self.scale.shape
        if shapes != ((count,), (count,)) or not count:
            raise MlgoError(f"expected tables of {count} features, got the shapes {shapes}; fit it again")
        if not (np.isfinite(self.center).all() and np.isfinite(self.scale).all() and self.scale.all()):
            raise MlgoError("expected finite numbers in a normalization and no scale of 0, got others; fit it again")
        object.__setattr__(self, "factor", (1 / self.scale).astype(np.float32))

    @classmethod
    def fit(cls, observations: npt.ArrayLike, names: Sequence[str], method: str = "log_standard") -> Normalization:
        """Return the normalization of raw features of shape (decisions, features), at least one decision.

        Raises:
            MlgoError: There are no observations, they have another shape, or the method is unknown.
        """
        values = np.asarray(observations, np.float64)
        if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
            raise MlgoError(
                f"expected observations of shape (decisions, {len(names)}), got the shape {values.shape}; name each "
                "feature"
            )
        if method == "log_standard":
            values = np.sign(values) * np.log1p(np.abs(values))
        center, deviation = values.mean(0), values.std(0)
        # Rounding alone is no variation.
        scale = np.where(deviation > 1e-6 * (1 + np.abs(center)), deviation, 1.0)
        return cls(method, tuple(names), center.astype(np.float32), scale.astype(np.float32))

    def __call__(self, values: Floats) -> Floats:
        """Return normalized features, a new array, of raw features of shape (…, features) in the order of `names`."""
        if self.method == "standard":
            result = values - self.center
        else:
            # A float32 logarithm differs between machines in its last bit; a float64 logarithm agrees in its first 24.
            result = np.log1p(np.abs(values), dtype=np.float64).astype(np.float32)
            np.copysign(result, values, out=result)
            result -= self.center
        result *= self.factor
        np.minimum(result, _MOST, out=result)
        np.maximum(result, _LEAST, out=result)
        return result

    def columns(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """Return the column of each feature among `names`: the normalization applies to `values[..., columns]`."""
        return feature_columns("the normalization", self.names, names)

    def select(self, names: Sequence[str]) -> Normalization:
        """Return the normalization of some of the features, in the given order; a missing one is an MlgoError."""
        chosen = feature_columns("the selection", names, self.names)
        return Normalization(self.method, tuple(names), self.center[chosen], self.scale[chosen])

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json()` that JSON can hold exactly."""
        return {
            "format": FORMAT,
            "method": self.method,
            "names": list(self.names),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "quantiles": [[] for _ in self.names],  # of the first writers of the format; equal networks are equal files
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Normalization:
        """Return the normalization of the data of `to_json()`; other data are an MlgoError."""
        try:
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            names = tuple(str(name) for name in value["names"])
            center, scale = (np.asarray(value[key], np.float32) for key in ("center", "scale"))
            return cls(value["method"], names, center, scale)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise MlgoError(
                f"expected the data of a normalization of format {FORMAT}, got {error!r}; fit it again"
            ) from error


def feature_columns(what: str, wanted: Sequence[str], names: Sequence[str]) -> npt.NDArray[np.intp]:
    """Return the columns of the wanted features among all names, or raise an MlgoError with the subject `what`."""
    position = {name: number for number, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        # A feature of each register has a column for each.
        known = ", ".join(dict.fromkeys(name.partition("[")[0] for name in names))
        raise MlgoError(
            f"{what} needs {len(missing)} features that are missing: {', '.join(missing)}; got {known}; use the "
            "compiler and the environment that it was trained with"
        )
    return np.array([position[name] for name in wanted], np.intp)
