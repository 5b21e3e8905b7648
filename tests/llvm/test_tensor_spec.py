"""LLVM's TensorSpec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.llvm.tensor_spec import SCALAR_TYPES, TensorSpec, record_dtype

SIZES = {"float": 4, "double": 8, **{f"{sign}int{8 * n}_t": n for sign in ("", "u") for n in (1, 2, 4, 8)}}

specs = st.builds(
    TensorSpec,
    name=st.text(min_size=1, max_size=20),
    type=st.sampled_from(sorted(SCALAR_TYPES)),
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple),
    port=st.integers(0, 3),
)


def test_every_scalar_type_of_llvm_is_known_with_its_size() -> None:
    assert {name: dtype.itemsize for name, dtype in SCALAR_TYPES.items()} == SIZES


def test_scalars_are_little_endian_on_every_host() -> None:
    assert np.frombuffer(b"\x01\x00\x00\x00\x00\x00\x00\x80", SCALAR_TYPES["int64_t"])[0] == 1 - 2**63


@given(specs)
def test_a_specification_survives_json(spec: TensorSpec) -> None:
    assert TensorSpec.from_json(spec.to_json()) == spec


@given(specs)
def test_the_number_of_bytes_is_that_of_numpy(spec: TensorSpec) -> None:
    array = np.zeros(spec.shape, spec.dtype)
    assert (spec.size, spec.nbytes) == (array.size, array.nbytes)


def test_json_has_the_keys_of_llvm_in_its_order() -> None:
    spec = TensorSpec("mask", "int64_t", (1, 33))
    assert list(spec.to_json().items()) == [("name", "mask"), ("type", "int64_t"), ("port", 0), ("shape", [1, 33])]


def test_a_port_may_be_left_out() -> None:
    assert TensorSpec.from_json({"name": "a", "type": "float", "shape": [1]}).port == 0


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "JSON object"),
        (["a", "float", [1]], "JSON object"),
        ({"type": "float", "shape": [1]}, "string name"),
        ({"name": 3, "type": "float", "shape": [1]}, "string name"),
        ({"name": "a", "shape": [1]}, "string type"),
        ({"name": "a", "type": "float", "shape": [1], "port": "0"}, "integer port"),
        ({"name": "a", "type": "float", "shape": [1], "port": True}, "integer port"),
        ({"name": "a", "type": "float"}, "list of integers"),
        ({"name": "a", "type": "float", "shape": 1}, "list of integers"),
        ({"name": "a", "type": "float", "shape": [1.0]}, "list of integers"),
        ({"name": "a", "type": "float", "shape": [True]}, "list of integers"),
        ({"name": "a", "type": "float", "shape": []}, "at least 1"),
        ({"name": "a", "type": "float", "shape": [0]}, "at least 1"),
        ({"name": "a", "type": "float", "shape": [1, -1]}, "at least 1"),
        ({"name": "a", "type": "half", "shape": [1]}, "known are"),
    ],
)
def test_anything_else_is_refused_with_a_reason(value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TensorSpec.from_json(value)


def test_a_record_is_packed_without_gaps() -> None:
    dtype = record_dtype([TensorSpec("a", "int8_t", (1,)), TensorSpec("b", "double", (2, 3))])
    assert dtype.itemsize == 1 + 48
    assert dtype["b"].shape == (2, 3)


def test_two_tensors_of_one_name_make_no_record() -> None:
    with pytest.raises(ValueError, match="field 'a' occurs more than once"):
        record_dtype([TensorSpec("a", "float", (1,)), TensorSpec("a", "float", (1,))])
