"""The safetensors format, without its library.

A file (https://github.com/huggingface/safetensors, "Format") consists of the length of the header (8 bytes, little
endian), a JSON header, and the bytes of the tensors without gaps.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.storage.untrusted_file import read_untrusted

_LENGTH = 8
_LONGEST_HEADER = 1 << 24
_METADATA = "__metadata__"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}

Tensors = dict[str, npt.NDArray[Any]]


def read_tensors(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors of a safetensors file by name, and its metadata; raise `PolicyError` for another file."""
    try:
        data = read_untrusted(path)
    except OSError as error:
        raise PolicyError(f"expected a safetensors file, got {str(path)!r}: {error.strerror}") from error
    try:
        return parse_tensors(data)
    except PolicyError as error:
        raise PolicyError(f"expected a safetensors file, got {str(path)!r}: {error}") from error


def parse_tensors(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """Return tensors by name and metadata from the bytes of a safetensors file; raises as `read_tensors()`."""
    if len(data) < _LENGTH:
        raise PolicyError(f"expected {_LENGTH} bytes or more, got {len(data)}")
    length = int.from_bytes(data[:_LENGTH], "little")
    if length > min(len(data) - _LENGTH, _LONGEST_HEADER):
        raise PolicyError(f"expected a header of {length} bytes, got {len(data) - _LENGTH}")
    try:
        header = json.loads(data[_LENGTH : _LENGTH + length].decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"expected a JSON header, got {error}") from error
    if not isinstance(header, dict):
        raise PolicyError(f"expected a JSON object as header, got {type(header).__name__}")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise PolicyError("expected metadata of strings")
    contents = memoryview(data)[_LENGTH + length :]
    tensors: Tensors = {}
    spans = []
    for name, entry in header.items():
        tensors[name], span = _tensor(name, entry, contents)
        spans.append(span)
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise PolicyError(f"expected tensors without gaps, got a gap or an overlap at byte {end}")
        end = stop
    if end != len(contents):
        raise PolicyError(f"expected {end} bytes of tensors, got {len(contents)}")
    return tensors, metadata


def format_tensors(tensors: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file; tensors have dtypes of float16 to float64, int8 to int64, or uint8.

    Equal tensors and metadata give equal bytes, unlike the library, which orders metadata at random.
    """
    kinds = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    contents = []
    end = 0
    # As in the library: the widest types first, so that each tensor is aligned.
    for name, array in sorted(tensors.items(), key=lambda tensor: (-tensor[1].dtype.itemsize, tensor[0])):
        dtype = array.dtype.newbyteorder("<")
        data = array.astype(dtype).tobytes()
        header[name] = {"dtype": kinds[dtype], "shape": list(array.shape), "data_offsets": [end, end + len(data)]}
        contents.append(data)
        end += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *contents])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a duplicate name")
    return values


def _tensor(name: str, entry: Any, contents: memoryview) -> tuple[npt.NDArray[Any], tuple[int, int]]:
    try:
        kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise PolicyError(f"expected dtype, shape and two data_offsets of tensor {name!r}, got {entry!r}") from error
    if kind not in _DTYPES:
        raise PolicyError(f"expected tensor {name!r} of type {', '.join(_DTYPES)}, got {kind!r}")
    numbers = [*shape, start, stop] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise PolicyError(f"expected a shape and offsets of tensor {name!r}, got {shape!r}, {start!r} and {stop!r}")
    dtype = np.dtype(_DTYPES[kind])
    size = dtype.itemsize * math.prod(shape)
    if not start <= stop <= len(contents) or stop - start != size:
        raise PolicyError(
            f"expected {size} bytes of tensor {name!r} with shape {shape}, got bytes {start} to {stop} of "
            f"{len(contents)}"
        )
    array = np.frombuffer(contents[start:stop], dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("=")), (start, stop)
