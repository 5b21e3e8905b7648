"""Networks for NumPy, and the normalization of their features: small multi-layer perceptrons in safetensors files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.cache import write_atomically
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.storage.tensors import format_tensors, read_tensors

CLIP = 5.0
"""Standardised features are clipped to this number of standard deviations on both sides."""

_NORMALIZATION_FORMAT, _METHOD = 1, "log_standard"

# Python numbers would be converted at every call, which takes longer than the operation.
_MOST, _LEAST = np.float32(CLIP), np.float32(-CLIP)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Normalization:
    """Turns raw features into numbers of similar size, in environments and in policies.

    It gives `(y - mean) / deviation`, within ±5, of `y = sign(x) · log(1 + abs(x))`. Features that are constant in the
    fitted observations are only shifted, to 0.

    Attributes:
        names: Names of the features, in order.
        center: Subtracted first, float32 of shape (features,).
        scale: Then divided by, float32 of shape (features,); never 0.

    Raises:
        MlgoError: The tables have other shapes.
    """

    names: tuple[str, ...]
    center: Floats
    scale: Floats
    factor: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count = len(self.names)
        shapes = self.center.shape, self.scale.shape
        if shapes != ((count,), (count,)) or not count:
            raise MlgoError(f"expected tables of {count} features, got the shapes {shapes}; fit it again")
        if not (np.isfinite(self.center).all() and np.isfinite(self.scale).all() and self.scale.all()):
            raise MlgoError("expected finite numbers in a normalization and no scale of 0, got others; fit it again")
        object.__setattr__(self, "factor", (1 / self.scale).astype(np.float32))

    @classmethod
    def fit(cls, observations: npt.ArrayLike, names: Sequence[str]) -> Normalization:
        """Return the normalization of raw features of shape (decisions, features), at least one decision.

        Raises:
            MlgoError: There are no observations, or they have another shape.
        """
        values = np.asarray(observations, np.float64)
        if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
            raise MlgoError(
                f"expected observations of shape (decisions, {len(names)}), got the shape {values.shape}; name each "
                "feature"
            )
        values = np.sign(values) * np.log1p(np.abs(values))
        center, deviation = values.mean(0), values.std(0)
        # Rounding alone is no variation.
        scale = np.where(deviation > 1e-6 * (1 + np.abs(center)), deviation, 1.0)
        return cls(tuple(names), center.astype(np.float32), scale.astype(np.float32))

    @classmethod
    def logarithms(cls, names: Sequence[str]) -> Normalization:
        """Return the normalization `sign(x) · log(1 + abs(x)) / 4`, fitted to nothing; it clips features above 4e8."""
        center, scale = np.zeros(len(names), np.float32), np.full(len(names), 4.0, np.float32)
        return cls(tuple(names), center, scale)

    def __call__(self, values: Floats) -> Floats:
        """Return normalized features, a new array, of raw features of shape (…, features) in the order of `names`."""
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
        return Normalization(tuple(names), self.center[chosen], self.scale[chosen])

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json()` that JSON can hold exactly."""
        return {
            "format": _NORMALIZATION_FORMAT,
            "method": _METHOD,
            "names": list(self.names),
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
            "quantiles": [[] for _ in self.names],  # of the first writers of the format; equal networks are equal files
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Normalization:
        """Return the normalization of the data of `to_json()`; other data are an MlgoError."""
        try:
            if (value["format"], value["method"]) != (_NORMALIZATION_FORMAT, _METHOD):
                raise ValueError(f"format {value['format']!r}, method {value['method']!r}")
            names = tuple(str(name) for name in value["names"])
            center, scale = (np.asarray(value[key], np.float32) for key in ("center", "scale"))
            return cls(names, center, scale)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise MlgoError(
                f"expected the data of a normalization of format {_NORMALIZATION_FORMAT}, got {error!r}; fit it again"
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


FORMAT = "mlgo-gym network 1"

_PART = r"([A-Za-z_][A-Za-z0-9_.]{0,99}(\[[0-9]{1,9}\])?|-)"
_NAME = re.compile(rf"{_PART}( \| {_PART}){{0,2}}")  # an element of `mlgo/Joint-v0` has three names
"""Name of a feature, or of one column of it; it becomes part of a program when a network is exported."""

# A Python number would be converted at every call, which takes longer than the operation.
_ZERO = np.float32(0)

_BLOCK = 32
"""Number of rows that are multiplied at once; more do not fit into a core's cache."""

# Exponentials are computed in float64 and rounded, so that they are the same on every machine.
ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda values: np.maximum(values, _ZERO, out=values),
    "tanh": lambda values: np.tanh(values, dtype=np.float64).astype(np.float32),
}
"""Activations between the layers: PyTorch's functions of these names."""


def _multiply(values: Floats, weight: Floats) -> Floats:
    """Return `values @ weight`, each sum taken from the first input to the last.

    NumPy's matrix product sums in an order that depends on the machine and on the number of rows. Exported networks
    (`mlgo_gym.deploy`) sum in this order, so that they decide alike to the last bit.
    """
    # NumPy adds whole rows in order, but the numbers of a row in pairs; partial sums are always in order.
    if weight.shape[1] == 1:
        return np.asarray(np.add.accumulate(values * weight[:, 0], axis=-1)[..., -1:], np.float32)
    if values.ndim == 1:
        return np.asarray(np.add.reduce(values[:, np.newaxis] * weight, axis=0), np.float32)
    rows = values.reshape(-1, len(weight))
    product: Floats = np.empty((len(rows), weight.shape[1]), np.float32)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        np.add.reduce(rows[block, :, np.newaxis] * weight, axis=1, out=product[block])
    return product.reshape(*values.shape[:-1], -1)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A multi-layer perceptron: `x @ W + b`, an activation after each layer but the last.

    Attributes:
        features: names of the inputs, in order.
        weights: one per layer, float32 of shape (inputs, outputs).
        biases: one per layer, float32 of shape (outputs,).
        activation: one of `ACTIVATIONS`.
        normalization: normalization of the features, in the same order, or None.

    Raises:
        PolicyError: the shapes do not fit together, a feature's name is malformed, the activation is unknown, or the
            normalization has other features.
    """

    features: tuple[str, ...]
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: str = "relu"
    normalization: Normalization | None = None
    _hidden: tuple[tuple[Floats, Floats], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise PolicyError(f"expected an activation of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        for name in self.features:
            if not _NAME.fullmatch(name):
                raise PolicyError(f"expected the name of a feature, as `threshold` or `mask[3]`, got {name[:100]!r}")
        shapes, biases = ([part.shape for part in parts] for parts in (self.weights, self.biases))
        widths = [(len(self.features),), *biases]
        if {len(shape) for shape in biases} != {1} or shapes != [a + b for a, b in pairwise(widths)]:
            raise PolicyError(
                f"expected layers for {len(self.features)} features, each with a bias, got weights (inputs, outputs) "
                f"of shape {shapes} and biases of shape {biases}"
            )
        if self.normalization is not None and self.normalization.names != self.features:
            raise PolicyError(
                f"expected a normalization of the features {self.features}, got one of {self.normalization.names}; use "
                "Normalization.select()"
            )
        object.__setattr__(self, "_hidden", tuple(zip(self.weights[:-1], self.biases[:-1], strict=True)))

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.biases[-1].shape[0])

    def __call__(self, values: Floats) -> Floats:
        """Return the outputs for raw features.

        Args:
            values: float32 of shape (…, features), in the order of `features`.

        Returns:
            float32 of shape (…, outputs); rows are independent to the last bit.
        """
        hidden = values if self.normalization is None else self.normalization(values)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in self._hidden:
            hidden = _multiply(hidden, weight)
            hidden += bias
            hidden = activate(hidden)
        return _multiply(hidden, self.weights[-1]) + self.biases[-1]

    @classmethod
    def from_state(
        cls,
        state: dict[str, npt.NDArray[Any]],
        layers: Sequence[str],
        features: Sequence[str],
        *,
        activation: str = "relu",
        normalization: Normalization | None = None,
    ) -> Network:
        """Return the network of PyTorch `Linear` layers in a state dictionary.

        Each layer, first to last, has the arrays `LAYER.weight` of shape (outputs, inputs) and `LAYER.bias`.

        Raises:
            PolicyError: a layer is missing, or the shapes do not fit together.
        """
        names = [f"{layer}.{part}" for part in ("weight", "bias") for layer in layers]
        if missing := [name for name in names if name not in state]:
            raise PolicyError(f"expected the tensors {', '.join(missing)}, got {', '.join(state)}; correct the names")
        parts = [np.ascontiguousarray(state[name].T, np.float32) for name in names]
        weights, biases = tuple(parts[: len(layers)]), tuple(parts[len(layers) :])
        return cls(tuple(features), weights, biases, activation, normalization)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to one safetensors file; equal networks give equal files.

        The tensors are `0.weight` of shape (outputs, inputs), `0.bias`, `1.weight`, …. The metadata are `format`,
        `features` (a JSON list), `activation`, and `normalization` (JSON) if there is one.
        """
        tensors = {}
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            tensors[f"{number}.weight"] = np.ascontiguousarray(weight.T)
            tensors[f"{number}.bias"] = bias
        metadata = {"format": FORMAT, "features": json.dumps(self.features), "activation": self.activation}
        if self.normalization is not None:
            metadata["normalization"] = json.dumps(self.normalization.to_json())
        write_atomically(Path(path), format_tensors(tensors, metadata))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Network:
        """Read a file of `save()`; nothing in the file can run.

        Raises:
            PolicyError: there is no such file, or it is no network.
        """
        state, metadata = read_tensors(path)
        if metadata.get("format") != FORMAT:
            raise PolicyError(
                f"expected a network with the format {FORMAT!r} in its metadata, got {metadata.get('format')!r} in "
                f"{path}; write it with Network.save()"
            )
        try:
            features = json.loads(metadata["features"])
            data = json.loads(metadata["normalization"]) if "normalization" in metadata else None
        except (KeyError, ValueError, RecursionError) as error:
            raise PolicyError(f"expected metadata of a network in {path}, got {error!r}; write it again") from error
        if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
            raise PolicyError(f"expected a list of feature names in {path}, got {features!r}; write it again")
        unsound = [name for name, tensor in state.items() if not np.isfinite(tensor).all()]
        if unsound:
            raise PolicyError(f"expected finite numbers in {path}, got others in {', '.join(unsound)}; train it again")
        normalization = None if data is None else Normalization.from_json(data)
        layers = [str(number) for number in range(len(state) // 2)]
        return cls.from_state(
            state, layers, features, activation=metadata.get("activation", ""), normalization=normalization
        )
