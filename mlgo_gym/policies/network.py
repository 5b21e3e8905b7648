"""`Network`: a small multi-layer perceptron for NumPy, with features and normalization in one safetensors file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.cache import write_atomically
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.normalization import Floats, Normalization
from mlgo_gym.storage.tensors import format_tensors, read_tensors

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
