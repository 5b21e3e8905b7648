"""LLVM's TensorSpec: name, scalar type, shape, and the NumPy dtype of one record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

SCALAR_TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
    "int8_t": np.dtype("<i1"),
    "uint8_t": np.dtype("<u1"),
    "int16_t": np.dtype("<i2"),
    "uint16_t": np.dtype("<u2"),
    "int32_t": np.dtype("<i4"),
    "uint32_t": np.dtype("<u4"),
    "int64_t": np.dtype("<i8"),
    "uint64_t": np.dtype("<u8"),
}
"""The scalar types of `SUPPORTED_TENSOR_TYPES` in llvm/Analysis/TensorSpec.h, little-endian as every supported host."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named tensor (llvm/Analysis/TensorSpec.h).

    Attributes:
        name: the feature's name.
        type: the C++ name of the scalar type, a key of `SCALAR_TYPES`.
        shape: the dimensions; at least one, each at least 1.
        port: TensorFlow's output port; kept, never used.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    port: int = 0

    def __post_init__(self) -> None:
        if self.type not in SCALAR_TYPES:
            raise ValueError(f"tensor {self.name!r} has type {self.type!r}; known are {', '.join(SCALAR_TYPES)}")
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise ValueError(f"tensor {self.name!r} has shape {list(self.shape)}; every extent must be at least 1")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of one element."""
        return SCALAR_TYPES[self.type]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the whole tensor."""
        return self.size * self.dtype.itemsize

    @classmethod
    def from_json(cls, value: object) -> TensorSpec:
        """Return the tensor of `{"name": str, "type": str, "shape": [int, …], "port": int}`, or raise ValueError."""
        fields = value if isinstance(value, dict) else {}
        name, kind, shape, port = (fields.get(key, 0) for key in ("name", "type", "shape", "port"))
        is_shape = isinstance(shape, list) and all(type(extent) is int for extent in shape)
        if not isinstance(name, str) or not isinstance(kind, str) or type(port) is not int or not is_shape:
            raise ValueError(f"expected a tensor with a name, a type, a list of integers as shape, got {value!r}")
        return cls(name, kind, tuple(shape), port)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object that LLVM's `TensorSpec::toJSON` writes, keys in its order."""
        return {"name": self.name, "type": self.type, "port": self.port, "shape": list(self.shape)}
