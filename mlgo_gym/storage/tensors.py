"""The safetensors container, without its library: names, shapes and numbers, and nothing in it that could run.

The format (https://github.com/huggingface/safetensors, "Format") is eight bytes of length, little endian, a JSON header
of that length, and the tensors' bytes one behind the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.storage.foreign_file import read_foreign

_LENGTH = 8
_LONGEST_HEADER = 1 << 24
_METADATA = "__metadata__"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}

Tensors = dict[str, npt.NDArray[Any]]


def read_tensors(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors of a safetensors file by name, and its metadata.

    Raises:
        PolicyError: there is no such file, or it is not exactly one whole container; the text says what is wrong.
    """
    try:
        data = read_foreign(path)
    except OSError as error:
        raise PolicyError(f"{path} was to be a network in safetensors, and cannot be read: {error.strerror}") from error
    try:
        return parse_tensors(data)
    except PolicyError as error:
        raise PolicyError(f"{path} was to be a network in safetensors, and cannot be read: {error}") from error


def parse_tensors(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors of the bytes of a safetensors file by name, and its metadata.

    Raises:
        PolicyError: they are not exactly one whole container.
    """
    if len(data) < _LENGTH:
        raise PolicyError(f"it has {len(data)} bytes, and begins with {_LENGTH} of length")
    length = int.from_bytes(data[:_LENGTH], "little")
    if length > min(len(data) - _LENGTH, _LONGEST_HEADER):
        raise PolicyError(
            f"its header was to have {length} bytes, and there are {len(data) - _LENGTH} behind the length"
        )
    try:
        header = json.loads(data[_LENGTH : _LENGTH + length].decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise PolicyError(f"its header was to be a JSON object, and is a {type(header).__name__}")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise PolicyError("its metadata were to be texts by name")
    contents = memoryview(data)[_LENGTH + length :]
    tensors: Tensors = {}
    spans = []
    for name, entry in header.items():
        tensors[name], span = _tensor(name, entry, contents)
        spans.append(span)
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise PolicyError(f"its tensors were to lie one behind the other, and at byte {end} is a gap or an overlap")
        end = stop
    if end != len(contents):
        raise PolicyError(f"its tensors have {end} bytes, and there are {len(contents)}")
    return tensors, metadata


def format_tensors(tensors: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file.

    Equal tensors and metadata give equal bytes, which they do not by the library: there the order of the metadata is a
    matter of chance.

    Args:
        tensors: arrays by name, of floats of 16 to 64 bits, integers of 8 to 64, or bytes.
        metadata: texts by name.
    """
    kinds = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    contents = []
    end = 0
    # As the library has it: the widest types first, so that each lies at a multiple of its size.
    for name, array in sorted(tensors.items(), key=lambda each: (-each[1].dtype.itemsize, each[0])):
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
        raise ValueError("a name is there twice")
    return values


def _tensor(name: str, entry: Any, contents: memoryview) -> tuple[npt.NDArray[Any], tuple[int, int]]:
    try:
        kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError) as error:
        raise PolicyError(f"the tensor {name!r} has no dtype, shape and two data_offsets: {entry!r}") from error
    if kind not in _DTYPES:
        raise PolicyError(f"the tensor {name!r} is of the type {kind!r}; known are {', '.join(_DTYPES)}")
    numbers = [*shape, start, stop] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise PolicyError(f"the tensor {name!r} has the shape {shape!r} and the place {start!r} to {stop!r}")
    dtype = np.dtype(_DTYPES[kind])
    wanted = dtype.itemsize
    for number in shape:
        wanted *= number
    if not start <= stop <= len(contents) or stop - start != wanted:
        raise PolicyError(
            f"the tensor {name!r} of shape {shape} needs {wanted} bytes, and lies from {start} to {stop} of "
            f"{len(contents)}"
        )
    array = np.frombuffer(contents[start:stop], dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("=")), (start, stop)
