"""Models of other libraries, `onnx:FILE` and `tflite:DIR`, each in a process of its own."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.policies.protocol import MASK, chooser, feature_vector, mask_size, rows

Array = npt.NDArray[Any]

TRAINING_ONLY = ("discount", "reward", "step_type")
"""Inputs of TF-Agents policies without meaning at inference; they are 0 (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

MODEL = "model.tflite"
OUTPUT_SPEC = "output_spec.json"
"""Files of a model for LLVM's `-ml-inliner-model-under-training`."""

_KINDS = {
    "tflite": ("a TensorFlow Lite model", "ai_edge_litert"),
    "onnx": ("an ONNX model", "onnxruntime"),
}
_NUMBERS = frozenset(f"{kind}{8 << power}" for kind in ("int", "uint") for power in range(4))
_NUMBERS |= {"bool", "float16", "float32", "float64"}
_NO_NUMBERS = np.dtype("O")
_RUN_HEADER = struct.Struct("<II")
_MAX_EXTENT, _MAX_EXTENTS = 1 << 31, 16
_MAX_DESCRIPTION = 1 << 20
_MAX_ERROR = 1 << 16


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor of a model; a free dimension counts as 1, and `batched` says whether the first one is free."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    batched: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class ForeignModel:
    """A model in a file, in a process that it may crash, stop or fill without harm to this one.

    Args:
        kind: `"tflite"` or `"onnx"`, also the name of the extra that runs it.
        file: The file.
        process: The process that runs it; None starts one. Several models may share a process, which holds the one that
            ran last.

    Attributes:
        inputs, outputs: Its tensors; outputs need not be numbers.

    Raises:
        MissingExtraError: The library that runs it is not installed.
        PolicyError: The file is no such model, or one that cannot be used.
    """

    def __init__(self, kind: str, file: Path, process: ModelProcess | None = None) -> None:
        self._kind, library = _KINDS[kind]
        if process is None and find_spec(library) is None:
            raise MissingExtraError(self._kind, kind)
        self._file = file
        self._process = process or ModelProcess(kind)
        self._token = object()
        try:
            self._data = read_untrusted(file)
        except OSError as error:
            raise self._unusable(str(error)) from error
        self.inputs, self.outputs = self._load()

    def run(self, output: int, arrays: Iterable[Array], rows: int = 1) -> Array:
        """Return an output of the model by its index, flat; `rows` is the extent of free first dimensions.

        Raises:
            PolicyError: the model cannot be run, crashed, took too long or gives another output; the next run starts a
                new process.
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
            self._process.close()
            raise self._unusable(f"its process sent no description: {error}") from error
        self._process.loaded = self._token
        return [self.check_numbers(tensor) for tensor in inputs], outputs

    def check_numbers(self, tensor: ModelTensor) -> ModelTensor:
        """Return a tensor, or raise a PolicyError if its elements are no numbers."""
        if tensor.dtype == _NO_NUMBERS:
            raise self._unusable(f"expected tensors of numbers, got {tensor.name}; export another model")
        return tensor

    def _unusable(self, reason: str) -> PolicyError:
        return PolicyError(f"expected {self._kind}, got {self._file}: {reason}")


def read_model_description(data: bytes) -> tuple[list[ModelTensor], list[ModelTensor]]:
    """Return the inputs and outputs in a process's description, which is untrusted input, or raise a PolicyError."""
    try:
        inputs, outputs = parse_json(data)
        return [_tensor(*tensor) for tensor in inputs], [_tensor(*tensor) for tensor in outputs]
    except (ValueError, TypeError) as error:
        raise PolicyError(f"expected the inputs and outputs of a model, got {data[:80]!r}: {error}") from error


def _tensor(name: object, extents: list[int | None], kind: object) -> ModelTensor:
    valid = (extent is None or (type(extent) is int and 0 <= extent < _MAX_EXTENT) for extent in extents)
    if len(extents) > _MAX_EXTENTS or not all(valid):
        raise ValueError(f"a tensor has the dimensions {str(extents)[:80]}")
    shape = tuple(1 if extent is None else extent for extent in extents)
    dtype = np.dtype(kind) if isinstance(kind, str) and kind in _NUMBERS else _NO_NUMBERS
    return ModelTensor(str(name), shape, dtype, extents[:1] == [None])


class ForeignPolicy:
    """A policy that a foreign model computes; one of its outputs decides.

    The model has one input for each feature that it uses, with the feature's name, or one for the whole flat
    observation. It may use fewer features than the environment has. An output of one integer is the action; the action
    of other outputs is that of `chooser()`.

    Args:
        inputs: the model's inputs, named as features.
        output: index of the output that decides; it is divided by `unit`.

    Raises:
        PolicyError: a feature is missing or has another size, or the output is no action.
    """

    def __init__(
        self,
        env: CompilerEnv,
        kind: str,
        model: ForeignModel,
        inputs: Sequence[ModelTensor],
        output: int = 0,
        unit: float = 1.0,
    ) -> None:
        self._model, self._output, self._unit = model, output, np.float32(unit)
        self._inputs = _inputs(kind, env, inputs)
        tensor = model.check_numbers(model.outputs[output])
        self._is_action = tensor.dtype.kind in "iu" and tensor.size == 1
        self._is_action &= isinstance(env.action_space, gym.spaces.Discrete)
        self._choose = None if self._is_action else chooser(kind, env, tensor.size)
        self._kind, self._space = kind, env.action_space

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the model's decision; errors are those of `ForeignModel.run()`."""
        return self._action(self._model.run(self._output, self._inputs(observation)), info)

    def _action(self, output: Array, info: Mapping[str, Any]) -> Any:
        if self._unit != 1.0:
            output = output / self._unit
        if self._choose is not None:
            return self._choose(output.reshape(-1), info.get(MASK))
        action = int(output.reshape(-1)[0])
        if not self._space.contains(action):
            raise PolicyError(f"expected an action of {self._space}, got {action} from the policy {self._kind!r}")
        return action


class OnnxPolicy(ForeignPolicy):
    """Runs an ONNX model; the first output decides. Errors are those of `ForeignModel` and `ForeignPolicy`."""

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        model = ForeignModel("onnx", path, process)
        if not model.outputs:
            raise PolicyError(f"expected a model with an output, got {path}, which has none; export another")
        super().__init__(env, "onnx", model, model.inputs)
        self._batched = all(tensor.batched for tensor in (*model.inputs, model.outputs[0]))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the model's decisions, in one run if its first dimensions are free, else one by one."""
        singles = [rows(observations, number) for number in range(len(infos))]
        if not self._batched:
            return [self.act(observation, info) for observation, info in zip(singles, infos, strict=True)]
        arrays = map(np.concatenate, zip(*map(self._inputs, singles), strict=True))
        outputs = self._model.run(0, arrays, len(infos)).reshape(len(infos), -1)
        return [self._action(output, info) for output, info in zip(outputs, infos, strict=True)]


class TflitePolicy(ForeignPolicy):
    """Runs a TensorFlow Lite model, a file or a folder with `model.tflite`, by LLVM's rules.

    The rules are those of llvm/lib/Analysis/TFLiteUtils.cpp: `serving_default_`, `action_` and the port after the colon
    are no part of an input's name, and the file `output_spec.json` beside the model names the output that decides.
    Without that file the model has one output. The model gives advice; an action may have another unit.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        file = path / MODEL if path.is_dir() else path
        model = ForeignModel("tflite", file, process)
        inputs = [replace(tensor, name=_feature_name(tensor.name)) for tensor in model.inputs]
        output = _decision(model.outputs, file.with_name(OUTPUT_SPEC))
        super().__init__(env, "tflite", model, inputs, output, env.task.advice_unit)


def _feature_name(tensor: str) -> str:
    return tensor.partition(":")[0].removeprefix("serving_default_").removeprefix("action_")


def _decision(outputs: Sequence[ModelTensor], spec: Path) -> int:
    """Return the index of the output that decides: the first in the file, or the only one."""
    names = [output.name for output in outputs]
    if not spec.exists():
        if len(outputs) != 1:
            raise PolicyError(f"expected {spec}, which names one of {', '.join(names)}, got no such file; write it")
        return 0
    try:
        tensor = parse_json(read_untrusted(spec))[0]["tensor_spec"]
        name, port = tensor["name"], tensor.get("port", 0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise PolicyError(f"expected a list of outputs with a tensor_spec each, got {error!r} in {spec}") from error
    for index, output in enumerate(names):
        if output in (f"{name}:{port}", name):
            return index
    raise PolicyError(f"expected one of the outputs {', '.join(names)}, got {name}:{port} in {spec}; correct it")


def _inputs(policy: str, env: CompilerEnv, tensors: Sequence[ModelTensor]) -> Callable[[Any], list[Array]]:
    """Return the function from an observation to the inputs of a model."""
    named = [_feature_names(env, tensor) for tensor in tensors]
    if len(tensors) == 1 and tensors[0].size == len(env.feature_names) and tensors[0].name not in env.feature_names:
        named = [list(env.feature_names)]
    features = feature_vector(policy, env, [name for names in named for name in names])
    ends = np.cumsum([0, *map(len, named)]).tolist()
    parts = list(zip(tensors, map(slice, ends[:-1], ends[1:]), named, strict=True))

    def read(observation: Any) -> list[Array]:
        values = features(observation)
        return [
            values[part].astype(tensor.dtype).reshape(tensor.shape) if names else np.zeros(tensor.shape, tensor.dtype)
            for tensor, part, names in parts
        ]

    return read


def _feature_names(env: CompilerEnv, tensor: ModelTensor) -> list[str]:
    """Return the names of the features in an input; none for one of training alone."""
    if tensor.size == 1 and tensor.name in (*TRAINING_ONLY, *env.feature_names):
        return [] if tensor.name in TRAINING_ONLY else [tensor.name]
    name = MASK if tensor.name == "mask" else tensor.name
    count = mask_size(env) if name == MASK else sum(feature.startswith(f"{name}[") for feature in env.feature_names)
    # A tensor of another size is another feature.
    return [f"{name}[{column}]" for column in range(count)] if count == tensor.size else [f"{name} {[*tensor.shape]}"]
