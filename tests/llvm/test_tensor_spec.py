"""LLVM's TensorSpec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlgo_gym.llvm.training_log import SCALAR_TYPES, TensorSpec

SIZES = {"float": 4, "double": 8, **{f"{sign}int{8 * n}_t": n for sign in ("", "u") for n in (1, 2, 4, 8)}}


def test_every_scalar_type_of_llvm_is_known_and_little_endian() -> None:
    assert {name: dtype.itemsize for name, dtype in SCALAR_TYPES.items()} == SIZES
    assert np.frombuffer(b"\x01\x00\x00\x00\x00\x00\x00\x80", SCALAR_TYPES["int64_t"])[0] == 1 - 2**63


def test_a_specification_survives_json_and_has_the_bytes_of_numpy() -> None:
    for scalar, size in SIZES.items():
        spec = TensorSpec("a", scalar, (3, 4), port=2)
        assert TensorSpec.from_json(spec.to_json()) == spec
        assert (spec.size, spec.nbytes) == (12, 12 * size)


VALID: dict[str, Any] = {"name": "a", "type": "float", "shape": [1]}
INVALID: list[tuple[str, Any]] = [
    ("expected a tensor with a name", ["a", "float", [1]]),
    *(("expected a tensor with a name", {**VALID, name: None}) for name in ("name", "type", "shape")),
    ("expected a tensor with a name", {**VALID, "port": True}),
    ("expected a tensor with a name", {**VALID, "shape": [1.0]}),
    ("known are", {**VALID, "type": "half"}),
    ("at least 1", {**VALID, "shape": [1, -1]}),
]


def test_json_has_the_keys_of_llvm_in_its_order_and_anything_else_is_refused() -> None:
    spec = TensorSpec("mask", "int64_t", (1, 33))
    assert list(spec.to_json().items()) == [("name", "mask"), ("type", "int64_t"), ("port", 0), ("shape", [1, 33])]
    assert TensorSpec.from_json(VALID).port == 0
    for complaint, value in INVALID:
        with pytest.raises(ValueError, match=complaint):
            TensorSpec.from_json(value)
