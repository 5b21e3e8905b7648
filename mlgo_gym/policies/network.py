"""`Network`: a small multi-layer perceptron for NumPy; weights, features and normalization in one safetensors file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.normalization import Floats, Normalization
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.tensors import format_tensors, read_tensors

FORMAT = "mlgo-gym network 1"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(\[[0-9]{1,9}\])?")
"""The name of a feature, or of one column of it. It becomes part of a program where a network is exported."""

# A Python number would be converted at every call, which takes longer than the maximum.
_ZERO = np.float32(0)


def _relu(values: Floats) -> Floats:
    np.maximum(values, _ZERO, out=values)
    return values


def _tanh(values: Floats) -> Floats:
    # As in `Normalization`: of float64, and then rounded, it is the same on every machine.
    result: Floats = np.tanh(values, dtype=np.float64).astype(np.float32)
    return result


def _elu(values: Floats) -> Floats:
    grown = np.expm1(np.minimum(values, _ZERO), dtype=np.float64).astype(np.float32)
    result: Floats = np.where(values > 0, values, grown)
    return result


def _leaky_relu(values: Floats) -> Floats:
    result: Floats = np.maximum(values, np.float32(0.01) * values)
    return result


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": _relu,
    "tanh": _tanh,
    "elu": _elu,
    "leaky_relu": _leaky_relu,
}
"""What may lie between the layers: PyTorch's functions of these names, with their default arguments."""


def _multiply(values: Floats, weight: Floats) -> Floats:
    """Return `values @ weight`, each sum taken from the first input to the last.

    A matrix product of NumPy sums in an order that depends on the machine and on the number of rows. Exported networks
    (`mlgo_gym.deploy`) sum in this one, so that they decide alike where a decision is a matter of the last bit.
    """
    if values.ndim == 1 and weight.shape[1] > 1:
        # NumPy adds whole rows one after the other; it takes columns alone in pairs.
        product: Floats = np.add.reduce(values[:, np.newaxis] * weight, axis=0)
        return product
    product = values[..., :1] * weight[0]
    for number in range(1, len(weight)):
        product += values[..., number : number + 1] * weight[number]
    return product


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A multi-layer perceptron: `x @ W + b`, an activation after each layer but the last.

    Attributes:
        features: the names of the inputs, in order.
        weights: one per layer, float32 of shape (inputs, outputs).
        biases: one per layer, float32 of shape (outputs,).
        activation: a name among `ACTIVATIONS`.
        normalization: what is done to the features first, in the same order; None: nothing.

    Raises:
        PolicyError: the shapes do not fit together, a name is none of a feature, the activation is unknown, or the
            normalization is of others.
    """

    features: tuple[str, ...]
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: str = "relu"
    normalization: Normalization | None = None
    _hidden: tuple[tuple[Floats, Floats], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise PolicyError(f"an activation is one of {', '.join(ACTIVATIONS)}; found {self.activation!r}")
        for name in self.features:
            if not _NAME.fullmatch(name):
                raise PolicyError(
                    f"the name of a feature was wanted, such as `threshold` or `mask[3]`, found {name[:100]!r}; write "
                    "the network again"
                )
        shapes = [weight.shape for weight in self.weights]
        inputs = len(self.features)
        fits = len(self.weights) == len(self.biases) > 0
        for weight, bias in zip(self.weights, self.biases, strict=False):
            fits = fits and weight.ndim == 2 and weight.shape[0] == inputs and bias.shape == weight.shape[1:]
            inputs = weight.shape[-1] if weight.ndim else 0
        if not fits:
            biases = [bias.shape for bias in self.biases]
            raise PolicyError(
                f"layers from {len(self.features)} features on were wanted, each with a bias; found weights (inputs, "
                f"outputs) {shapes} and biases {biases}"
            )
        if self.normalization is not None and self.normalization.names != self.features:
            raise PolicyError(
                f"the normalization was to be of the network's features {self.features}, and is of "
                f"{self.normalization.names}; use Normalization.select()"
            )
        object.__setattr__(self, "_hidden", tuple(zip(self.weights[:-1], self.biases[:-1], strict=True)))

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return int(self.biases[-1].shape[0])

    def __call__(self, values: Floats) -> Floats:
        """Return the outputs for raw features.

        Args:
            values: float32 of shape (…, features), in the order of `features`.

        Returns:
            float32 of shape (…, outputs); those of a row do not depend on the others.
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
        """Return the network whose layers are PyTorch `Linear`s of a state dictionary.

        Args:
            state: arrays by name; a weight has the shape (outputs, inputs).
            layers: the names of the linear layers, first to last; each has `NAME.weight` and `NAME.bias`.
            features: the names of the inputs.
            activation: a name among `ACTIVATIONS`.
            normalization: what is done to the features first.

        Raises:
            PolicyError: a layer is missing, or the shapes do not fit together.
        """
        missing = [
            f"{layer}.{part}" for layer in layers for part in ("weight", "bias") if f"{layer}.{part}" not in state
        ]
        if missing:
            raise PolicyError(
                f"the layers {', '.join(missing)} were wanted, found {', '.join(state)}; correct the names"
            )
        return cls(
            tuple(features),
            tuple(np.ascontiguousarray(state[f"{layer}.weight"].T, np.float32) for layer in layers),
            tuple(np.ascontiguousarray(state[f"{layer}.bias"], np.float32) for layer in layers),
            activation,
            normalization,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one safetensors file.

        Its tensors are `0.weight` (outputs, inputs), `0.bias`, `1.weight`, …; its metadata are `format`, `features`
        (a JSON list), `activation` and `normalization` (JSON, where there is one). Equal networks give equal files.
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
        """Read what `save()` wrote; nothing in the file can run, and nothing beyond NumPy is needed.

        Raises:
            PolicyError: there is no such file, or it is no network.
        """
        state, metadata = read_tensors(path)
        if metadata.get("format") != FORMAT:
            raise PolicyError(
                f"{path} was to be a network ({FORMAT!r} in its metadata), and says {metadata.get('format')!r}; write "
                "it with Network.save()"
            )
        try:
            features = json.loads(metadata["features"])
            data = json.loads(metadata["normalization"]) if "normalization" in metadata else None
        except (KeyError, ValueError, RecursionError) as error:
            raise PolicyError(f"the metadata of {path} are damaged: {error!r}; write it again") from error
        if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
            raise PolicyError(f"the features of {path} were to be a list of names, found {features!r}; write it again")
        unsound = [name for name, tensor in state.items() if not np.isfinite(tensor).all()]
        if unsound:
            raise PolicyError(f"{path} has numbers that are not finite in {', '.join(unsound)}; train it again")
        normalization = None if data is None else Normalization.from_json(data)
        layers = [str(number) for number in range(len(state) // 2)]
        return cls.from_state(
            state, layers, features, activation=metadata.get("activation", ""), normalization=normalization
        )
