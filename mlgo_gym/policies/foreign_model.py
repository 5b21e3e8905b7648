"""A model that somebody else made: what it takes and gives, and what it answers, from a process of its own."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.policies.model_tensors import ModelTensor
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import parse_json

_KINDS = {
    "tflite": ("a TensorFlow Lite model", "ai_edge_litert"),
    "onnx": ("an ONNX model", "onnxruntime"),
    "sb3": ("a model of stable-baselines3", "torch"),
}
_NUMBERS = frozenset(f"{kind}{8 << power}" for kind in ("int", "uint") for power in range(4))
_NUMBERS |= {"bool", "float16", "float32", "float64"}
_NO_NUMBERS = np.dtype("O")
_PLACE = struct.Struct("<II")
_MOST_EXTENT, _MOST_EXTENTS = 1 << 31, 16
_LONGEST_DESCRIPTION = 1 << 20
_LONGEST_ERROR = 1 << 16


class ForeignModel:
    """A model in a file, in a process that it may crash, stop or fill without harm to this one.

    Args:
        kind: `"tflite"`, `"onnx"` or `"sb3"`, which is also the extra that runs it. The weights of a model of
            stable-baselines3 are what it gives, and it takes nothing.
        file: the file.
        process: where it runs; by default in one of its own. Of several models in one process, the last that was asked
            is there; another is loaded again before it is asked.
        data: the model, if it is not the whole file.

    Attributes:
        inputs: what it takes.
        outputs: what it gives, which need not be numbers.

    Raises:
        MissingExtraError: what runs it is not installed.
        PolicyError: it is no such model, or one that cannot be used.
    """

    def __init__(self, kind: str, file: Path, process: ModelProcess | None = None, data: bytes | None = None) -> None:
        self._what, library = _KINDS[kind]
        if find_spec(library) is None:
            raise MissingExtraError(self._what, kind)
        self._file = file
        self._process = process or ModelProcess(kind)
        self._token = object()
        try:
            self._data = read_foreign(file) if data is None else data
        except OSError as error:
            raise self._unusable(str(error)) from error
        self.inputs, self.outputs = self._load()

    def deciding(self, output: int) -> ModelTensor:
        """Return the output of a number, which decides.

        Raises:
            PolicyError: it is none of numbers.
        """
        return self._numbers(self.outputs[output])

    def run(self, output: int, arrays: Iterable[npt.NDArray[Any]], rows: int = 1) -> npt.NDArray[Any]:
        """Return an output of the model, flat.

        Args:
            output: its number.
            arrays: the inputs, each of its tensor's type.
            rows: how long the first dimension is where it is not fixed.

        Raises:
            PolicyError: the model cannot be run, or gives something else; the next run begins afresh.
        """
        if self._process.holds is not self._token and self._load() != (self.inputs, self.outputs):
            raise self._unusable("it says otherwise than before what it takes and gives")
        tensor = self.outputs[output]
        size = tensor.dtype.itemsize * math.prod(tensor.shape) * (rows if tensor.batched else 1)
        given = [_PLACE.pack(output, rows), *(array.tobytes() for array in arrays)]
        try:
            letter, data = self._process.ask(b"R", given, max(size, _LONGEST_ERROR))
        except ModelProcessError as error:
            raise ModelProcessError(str(self._unable(str(error)))) from None
        if letter != b"O":
            raise self._unable(data.decode(errors="replace"))
        if len(data) != size:
            raise self._unable(f"{tensor.name} was to be {size:,} bytes, and is {len(data):,}")
        return np.frombuffer(data, tensor.dtype)

    def close(self) -> None:
        """End its process. Idempotent; the next run begins afresh."""
        self._process.close()

    def _load(self) -> tuple[list[ModelTensor], list[ModelTensor]]:
        try:
            letter, data = self._process.ask(b"M", [self._data], _LONGEST_DESCRIPTION)
        except ModelProcessError as error:
            raise ModelProcessError(str(self._unusable(str(error)))) from None
        if letter != b"D":
            raise self._unusable(data.decode(errors="replace"))
        try:
            inputs, outputs = read_model_description(data)
        except PolicyError as error:
            self.close()
            raise self._unusable(f"what its process says of it cannot be read: {error}") from error
        self._process.holds = self._token
        return [self._numbers(tensor) for tensor in inputs], outputs

    def _numbers(self, tensor: ModelTensor) -> ModelTensor:
        if tensor.dtype == _NO_NUMBERS:
            raise self._unusable(f"tensors of numbers were wanted, and {tensor.name} is none; export another model")
        return tensor

    def _unusable(self, why: str) -> PolicyError:
        return PolicyError(f"{self._file} was to be {self._what}, and cannot be used: {why}")

    def _unable(self, why: str) -> PolicyError:
        return PolicyError(f"{self._file} was to decide, and its model cannot be run: {why}")


def read_model_description(data: bytes) -> tuple[list[ModelTensor], list[ModelTensor]]:
    """Return the inputs and the outputs of a model, of what its process says; that may have been made to say anything.

    Raises:
        PolicyError: it is no description.
    """
    try:
        inputs, outputs = parse_json(data)
        return [_tensor(*each) for each in inputs], [_tensor(*each) for each in outputs]
    except (ValueError, TypeError) as error:
        raise PolicyError(f"the inputs and outputs of a model were wanted, found {data[:80]!r}: {error}") from error


def _tensor(name: object, extents: list[int | None], kind: object) -> ModelTensor:
    known = (extent is None or (type(extent) is int and 0 <= extent < _MOST_EXTENT) for extent in extents)
    if len(extents) > _MOST_EXTENTS or not all(known):
        raise ValueError(f"a tensor has the dimensions {str(extents)[:80]}")
    shape = tuple(1 if extent is None else extent for extent in extents)
    dtype = np.dtype(kind) if isinstance(kind, str) and kind in _NUMBERS else _NO_NUMBERS
    return ModelTensor(str(name), shape, dtype, extents[:1] == [None])
