"""The reader of safetensors accepts files of the library, and refuses damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from mlgo_gym.errors import PolicyError
from mlgo_gym.storage.tensors import parse_tensors, read_tensors


def container(header: Any, contents: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + contents


def entry(start: int, stop: int, **changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop], **changes}


def test_it_reads_what_the_library_writes() -> None:
    written = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "integers": np.array([-1, 1 << 40]),
        "empty": np.zeros((0, 4), np.float64),
        "number": np.array(1.5, np.float16),
    }
    tensors, metadata = parse_tensors(save(written, {"a": "b"}))
    assert metadata == {"a": "b"}
    assert {name: (array.dtype, array.shape) for name, array in tensors.items()} == {
        name: (array.dtype, array.shape) for name, array in written.items()
    }
    assert all(np.array_equal(tensors[name], array) for name, array in written.items())


DAMAGED = [
    (b"\x01", "expected 8 bytes or more, got 1"),
    (b"\xff" * 20, "expected a header of"),
    (container(b"\xff{}"), "expected a JSON header"),
    (container(b"[" * 100_000), "expected a JSON header"),
    (container(b'{"a": 1, "a": 2}'), "a duplicate name"),
    (container([]), "JSON object"),
    (container({"__metadata__": {"a": 1}}), "metadata"),
    (container({"a": {"dtype": "F32"}}), "expected dtype, shape and two data_offsets"),
    (container({"a": entry(0, 4, dtype="O")}, bytes(4)), "got 'O'"),
    (container({"a": entry(0, 4, shape=[True])}, bytes(4)), "expected a shape and offsets"),
    (container({"a": entry(0, 4, shape=[-1, -1])}, bytes(4)), "expected a shape and offsets"),
    (container({"a": entry(0, 4, shape=[2])}, bytes(4)), "expected 8 bytes"),
    (container({"a": entry(0, 8)}, bytes(4)), "got bytes 0 to 8 of 4"),
    (container({"a": entry(0, 4), "b": entry(0, 4)}, bytes(4)), "gap or an overlap"),
    (container({"a": entry(4, 8)}, bytes(8)), "gap or an overlap"),
    (container({"a": entry(0, 4)}, bytes(5)), "expected 4 bytes of tensors, got 5"),
]


def test_a_damaged_container_is_refused_with_a_reason() -> None:
    for data, message in DAMAGED:
        with pytest.raises(PolicyError, match=message):
            parse_tensors(data)


def test_a_changed_byte_is_read_or_refused_and_nothing_else() -> None:
    data = save({"0.weight": np.ones((2, 3), np.float32), "0.bias": np.ones(2, np.float32)}, {"a": "b"})
    refused = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x15
        try:
            tensors, _ = parse_tensors(bytes(damaged))
        except PolicyError:
            refused += 1
        else:
            assert sum(array.nbytes for array in tensors.values()) == 32
    assert 0 < refused < len(data)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*missing\.safetensors': No such file"):
        read_tensors(tmp_path / "missing.safetensors")
    tmp_path.joinpath("x").write_bytes(b"x")
    with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*/x'"):
        read_tensors(tmp_path / "x")
