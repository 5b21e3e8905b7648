"""The safetensors format, without its library.

A file (https://github.com/huggingface/safetensors, "Format") consists of the length of the header (8 bytes, little
endian), a JSON header, and the bytes of the tensors without gaps.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json
from mlgo_gym.errors import PolicyError

_LENGTH = 8
_ZIP = b"PK\3\4"
_METADATA = "__metadata__"
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}

Tensors = dict[str, npt.NDArray[Any]]


def read_tensors(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, str]]:
    """Return the read-only tensors of a safetensors file by name, and its metadata.

    Raises `PolicyError` if there is no such file, or it has another format.
    """
    tensors: Tensors = {}
    data = b""
    try:
        data = read_untrusted(path)
        start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        contents = memoryview(data)[start:]
        header = parse_json(data[_LENGTH:start])
        metadata = {str(name): str(value) for name, value in header.pop(_METADATA, {}).items()}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(contents[first:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError) as error:
        if data.startswith(_ZIP):
            raise PolicyError(
                f"expected a safetensors file, got {str(path)!r}, a zip file; for a model of Stable-Baselines3 save "
                "mlgo_gym.integrations.sb3.read_sb3(model, like)"
            ) from error
        # The `repr()` of an error of decoding contains the whole file.
        problem = f"{type(error).__name__}: {error}"
        raise PolicyError(f"expected a safetensors file, got {str(path)!r}: {problem}; check the path") from error
    return tensors, metadata


def format_tensors(tensors: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes of a safetensors file; tensors have dtypes of float16 to float64, int8 to int64, or uint8.

    Equal tensors and metadata give equal bytes, unlike the library, which orders metadata at random.
    """
    kinds = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    contents = b""
    # As in the library: the widest types first, so that each tensor is aligned.
    for name, array in sorted(tensors.items(), key=lambda tensor: (-tensor[1].dtype.itemsize, tensor[0])):
        dtype = array.dtype.newbyteorder("<")
        end = len(contents) + array.nbytes
        header[name] = {"dtype": kinds[dtype], "shape": list(array.shape), "data_offsets": [len(contents), end]}
        contents += array.astype(dtype).tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return len(text).to_bytes(_LENGTH, "little") + text + contents
