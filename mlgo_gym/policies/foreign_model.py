"""Models of other libraries, `onnx:FILE` and `tflite:DIR`."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.extras import library
from mlgo_gym.policies.protocol import MASK, chooser, feature_vector, mask_size

Array = npt.NDArray[Any]

TRAINING_ONLY = ("discount", "reward", "step_type")
"""Inputs of TF-Agents policies without meaning at inference; they are 0 (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

MODEL = "model.tflite"
OUTPUT_SPEC = "output_spec.json"
"""Files of a model for LLVM's `-ml-inliner-model-under-training`."""

_DTYPES = {"float": "float32", "double": "float64"}
"""Names of ONNX types where NumPy's differ."""


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor of a model; a free dimension counts as 1."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ForeignModel:
    """A model in a file. Its runtime is written in C++ and trusts the file; see SECURITY.md.

    Attributes:
        file: The file.
        inputs, outputs: Its tensors.
        compute: Takes the index of an output and the inputs in order; returns the output.
    """

    file: Path
    inputs: list[ModelTensor]
    outputs: list[ModelTensor]
    compute: Callable[[int, Sequence[Array]], Array]

    def run(self, output: int, arrays: Sequence[Array]) -> Array:
        """Return an output of the model by its index, flat.

        Raises:
            PolicyError: The model cannot be run, or gives an output of another size.
        """
        tensor = self.outputs[output]
        try:
            result = np.asarray(self.compute(output, arrays))
        except Exception as error:
            raise PolicyError(f"the model {self.file} cannot be run: {error}; use another model") from error
        if result.size != tensor.size:
            raise PolicyError(
                f"expected {tensor.size:,} numbers of {tensor.name} from {self.file}, got {result.size:,}"
            )
        return result.reshape(-1)


def load_model(kind: str, file: Path) -> ForeignModel:
    """Load `"onnx"` or `"tflite"`, also the name of the extra that runs it, for one thread of this process.

    Raises:
        MissingExtraError: The library that runs it is not installed.
        PolicyError: The file is no such model.
    """
    load, name, module = _LOADERS[kind]
    runtime = library(module, name, kind)
    try:
        return load(runtime, file, read_untrusted(file))
    except Exception as error:
        raise PolicyError(f"expected {name}, got {file}: {error}") from error


def _onnx(onnxruntime: Any, file: Path, data: bytes) -> ForeignModel:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # From memory, so that the model cannot name other files.
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    inputs, outputs = (
        [_tensor(found.name, found.shape, found.type.removeprefix("tensor(").removesuffix(")")) for found in tensors]
        for tensors in (session.get_inputs(), session.get_outputs())
    )
    names = [tensor.name for tensor in inputs]

    def compute(output: int, arrays: Sequence[Array]) -> Array:
        (result,) = session.run([outputs[output].name], dict(zip(names, arrays, strict=True)))
        return np.asarray(result)

    return ForeignModel(file, inputs, outputs, compute)


def _tensor(name: str, extents: Sequence[int | str | None], kind: str) -> ModelTensor:
    shape = tuple(extent if isinstance(extent, int) else 1 for extent in extents)
    try:
        return ModelTensor(name, shape, np.dtype(_DTYPES.get(kind, kind)))
    except TypeError:  # strings, and types that NumPy lacks
        return ModelTensor(name, shape, np.dtype("O"))


def _tflite(litert: Any, file: Path, data: bytes) -> ForeignModel:
    interpreter = litert.Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    places = [interpreter.get_input_details(), interpreter.get_output_details()]
    inputs, outputs = (
        [ModelTensor(found["name"], tuple(map(int, found["shape"])), np.dtype(found["dtype"])) for found in tensors]
        for tensors in places
    )

    def compute(output: int, arrays: Sequence[Array]) -> Array:
        for place, array in zip(places[0], arrays, strict=True):
            interpreter.set_tensor(place["index"], array)
        interpreter.invoke()
        return np.asarray(interpreter.get_tensor(places[1][output]["index"]))

    return ForeignModel(file, inputs, outputs, compute)


_LOADERS: dict[str, tuple[Callable[[Any, Path, bytes], ForeignModel], str, str]] = {
    "tflite": (_tflite, "a TensorFlow Lite model", "ai_edge_litert.interpreter"),
    "onnx": (_onnx, "an ONNX model", "onnxruntime"),
}


class ForeignPolicy:
    """A policy that a foreign model computes; one of its outputs decides.

    The model has one input for each feature that it uses, with the feature's name, or one for the whole flat
    observation. It may use fewer features than the environment has. An output of one integer is the action; the action
    of other outputs is that of `chooser()`.

    Args:
        inputs: the model's inputs, named as features.
        output: index of the output that decides; it is divided by `unit`.

    Raises:
        PolicyError: a feature is missing or has another size, elements are no numbers, or the output is no action.
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
        tensor = model.outputs[output]
        for used in (*inputs, tensor):
            if used.dtype.kind not in "biuf":
                raise PolicyError(f"expected tensors of numbers, got {used.name} in {model.file}; export another model")
        self._inputs = _inputs(kind, env, inputs)
        is_action = tensor.dtype.kind in "iu" and tensor.size == 1 and isinstance(env.action_space, gym.spaces.Discrete)
        self._choose = None if is_action else chooser(kind, env, tensor.size)
        self._kind, self._space = kind, env.action_space

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the model's decision; errors are those of `ForeignModel.run()`."""
        output = self._model.run(self._output, self._inputs(observation))
        if self._unit != 1.0:
            output = output / self._unit
        if self._choose is not None:
            return self._choose(output, info.get(MASK))
        action = int(output[0])
        if not self._space.contains(action):
            raise PolicyError(f"expected an action of {self._space}, got {action} from the policy {self._kind!r}")
        return action


def onnx_policy(env: CompilerEnv, path: Path) -> ForeignPolicy:
    """Return the policy of an ONNX model, whose first output decides.

    Errors are those of `load_model()` and `ForeignPolicy`.
    """
    model = load_model("onnx", path)
    if not model.outputs:
        raise PolicyError(f"expected a model with an output, got {path}, which has none; export another")
    return ForeignPolicy(env, "onnx", model, model.inputs)


def tflite_policy(env: CompilerEnv, path: Path) -> ForeignPolicy:
    """Return the policy of a TensorFlow Lite model, a file or a folder with `model.tflite`, by LLVM's rules.

    The rules are those of llvm/lib/Analysis/TFLiteUtils.cpp: `serving_default_`, `action_` and the port after the colon
    are no part of an input's name, and the file `output_spec.json` beside the model names the output that decides.
    Without that file the model has one output. The model gives advice; an action may have another unit.
    """
    file = path / MODEL if path.is_dir() else path
    model = load_model("tflite", file)
    inputs = [replace(tensor, name=_feature_name(tensor.name)) for tensor in model.inputs]
    output = _decision(model.outputs, file.with_name(OUTPUT_SPEC))
    return ForeignPolicy(env, "tflite", model, inputs, output, env.task.advice_unit)


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
