"""A model of another library in a process of its own: its inputs and outputs, and what it computes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.policies.model_tensors import ModelTensor, Read
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

_KINDS = {
    "tflite": ("a TensorFlow Lite model", "ai_edge_litert"),
    "onnx": ("an ONNX model", "onnxruntime"),
    "sb3": ("a model of stable-baselines3", "torch"),
}
_NUMBERS = frozenset(f"{kind}{8 << power}" for kind in ("int", "uint") for power in range(4))
_NUMBERS |= {"bool", "float16", "float32", "float64"}
_NO_NUMBERS = np.dtype("O")
_RUN_HEADER = struct.Struct("<II")
_MAX_EXTENT, _MAX_EXTENTS = 1 << 31, 16
_MAX_DESCRIPTION = 1 << 20
_MAX_ERROR = 1 << 16


class ForeignModel:
    """A model in a file, in a process that it may crash, stop or fill without harm to this one.

    Args:
        kind: `"tflite"`, `"onnx"` or `"sb3"`, also the name of the extra that runs it. A model of stable-baselines3 has
            its weights as outputs, and no inputs.
        file: the file.
        process: the process that runs it; None starts one. Several models may share a process, which holds the one that
            ran last and loads another before it runs.
        data: the model, if it is a part of the file.

    Attributes:
        inputs: its inputs.
        outputs: its outputs, which need not be numbers.

    Raises:
        MissingExtraError: the library that runs it is not installed.
        PolicyError: the file is no such model, or one that cannot be used.
    """

    def __init__(self, kind: str, file: Path, process: ModelProcess | None = None, data: bytes | None = None) -> None:
        self._kind, library = _KINDS[kind]
        if process is None and find_spec(library) is None:
            raise MissingExtraError(self._kind, kind)
        self._file = file
        self._process = process or ModelProcess(kind)
        self._token = object()
        try:
            self._data = read_untrusted(file) if data is None else data
        except OSError as error:
            raise self._unusable(str(error)) from error
        self.inputs, self.outputs = self._load()

    def number_output(self, index: int) -> ModelTensor:
        """Return an output by its index, or raise a PolicyError if its elements are no numbers."""
        return self._checked(self.outputs[index])

    def run(self, output: int, arrays: Iterable[npt.NDArray[Any]], rows: int = 1) -> npt.NDArray[Any]:
        """Return an output of the model, flat.

        Args:
            output: its index.
            arrays: the inputs, each of its tensor's type.
            rows: extent of free first dimensions.

        Raises:
            PolicyError: the model cannot be run, or gives another output; the next run starts a new process.
        """
        if self._process.loaded is not self._token and self._load() != (self.inputs, self.outputs):
            raise self._unusable("its inputs and outputs changed between two loads")
        tensor = self.outputs[output]
        size = tensor.dtype.itemsize * tensor.size * (rows if tensor.batched else 1)
        parts = [_RUN_HEADER.pack(output, rows), *(array.tobytes() for array in arrays)]
        try:
            letter, data = self._process.request(b"R", parts, max(size, _MAX_ERROR))
        except ModelProcessError as error:
            raise ModelProcessError(f"the model {self._file} cannot be run: {error}") from None
        if letter != b"O":
            raise PolicyError(f"the model {self._file} cannot be run: {data.decode(errors='replace')}")
        if len(data) != size:
            raise PolicyError(f"expected {size:,} bytes of {tensor.name} from {self._file}, got {len(data):,}")
        return np.frombuffer(data, tensor.dtype)

    def close(self) -> None:
        """Stop its process. Idempotent; the next run starts a new one."""
        self._process.close()

    def _load(self) -> tuple[list[ModelTensor], list[ModelTensor]]:
        try:
            letter, data = self._process.request(b"M", [self._data], _MAX_DESCRIPTION)
        except ModelProcessError as error:
            raise ModelProcessError(str(self._unusable(str(error)))) from None
        if letter != b"D":
            raise self._unusable(data.decode(errors="replace"))
        try:
            inputs, outputs = read_model_description(data)
        except PolicyError as error:
            self.close()
            raise self._unusable(f"its process sent no description: {error}") from error
        self._process.loaded = self._token
        return [self._checked(tensor) for tensor in inputs], outputs

    def _checked(self, tensor: ModelTensor) -> ModelTensor:
        if tensor.dtype == _NO_NUMBERS:
            raise self._unusable(f"expected tensors of numbers, got {tensor.name}; export another model")
        return tensor

    def _unusable(self, reason: str) -> PolicyError:
        return PolicyError(f"expected {self._kind}, got {self._file}: {reason}")


class ForeignPolicy:
    """A policy that a foreign model computes.

    The functions `inputs` read the model's inputs from an observation. The output with the index `output` is divided by
    `unit`, and `choose` makes an action of it and the action mask.
    """

    def __init__(
        self,
        model: ForeignModel,
        inputs: list[Read],
        output: int,
        choose: Callable[[npt.NDArray[Any], Any], Any],
        unit: float = 1.0,
    ) -> None:
        self._model, self._inputs, self._output, self._choose, self._unit = model, inputs, output, choose, unit

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the model's decision.

        Raises:
            PolicyError: the model cannot be run, crashed or took too long; the next decision starts a new process.
        """
        output = self._model.run(self._output, (read(observation) for read in self._inputs))
        if self._unit != 1.0:
            output = output / np.float32(self._unit)
        return self._choose(output, info.get("action_mask"))

    def close(self) -> None:
        """Stop the model's process, which also stops with the policy. Idempotent."""
        self._model.close()


def read_model_description(data: bytes) -> tuple[list[ModelTensor], list[ModelTensor]]:
    """Return the inputs and outputs in a process's description, which is untrusted input, or raise a PolicyError."""
    try:
        inputs, outputs = parse_json(data)
        return [_tensor(*each) for each in inputs], [_tensor(*each) for each in outputs]
    except (ValueError, TypeError) as error:
        raise PolicyError(f"expected the inputs and outputs of a model, got {data[:80]!r}: {error}") from error


def _tensor(name: object, extents: list[int | None], kind: object) -> ModelTensor:
    valid = (extent is None or (type(extent) is int and 0 <= extent < _MAX_EXTENT) for extent in extents)
    if len(extents) > _MAX_EXTENTS or not all(valid):
        raise ValueError(f"a tensor has the dimensions {str(extents)[:80]}")
    shape = tuple(1 if extent is None else extent for extent in extents)
    dtype = np.dtype(kind) if isinstance(kind, str) and kind in _NUMBERS else _NO_NUMBERS
    return ModelTensor(str(name), shape, dtype, extents[:1] == [None])
