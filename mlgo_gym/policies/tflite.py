"""The policies `tflite:FILE`: models in TensorFlow Lite, such as google/ml-compiler-opt trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.model_tensors import ModelTensor, bind_inputs, bind_output
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import parse_json

MODEL = "model.tflite"
OUTPUT_SPEC = "output_spec.json"
"""The files of a model as LLVM's `-ml-inliner-model-under-training` takes it."""

MOST_BYTES = 256 << 20
"""The most that a model's tensors may take: a file of a kilobyte can ask for any size."""


class TflitePolicy:
    """Asks a TensorFlow Lite model, as LLVM does (llvm/lib/Analysis/TFLiteUtils.cpp).

    The model has one input for each feature it knows, named after it; `serving_default_`, `action_` and the port behind
    the colon are not part of the name. Beside it `output_spec.json` says which output is the decision; without that
    file the model has one output.

    Args:
        env: the environment.
        path: the model, or a folder with `model.tflite`.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: it is no such model, wants a feature that is not there, or decides something else.
    """

    def __init__(self, env: CompilerEnv, path: Path) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError:
            raise MissingExtraError("a TensorFlow Lite model", "tflite") from None
        file = path / MODEL if path.is_dir() else path
        try:
            self._model = Interpreter(model_content=read_foreign(file), num_threads=1)
            _check_size(self._model.get_tensor_details(), file)
            self._model.allocate_tensors()
            inputs, outputs = self._model.get_input_details(), self._model.get_output_details()
        except (OSError, ValueError, RuntimeError) as error:  # a name that is no UTF-8 is a ValueError
            raise PolicyError(f"{file} was to be a TensorFlow Lite model, and cannot be used: {error}") from error
        self._file = file
        self._places = [detail["index"] for detail in inputs]
        self._inputs = bind_inputs("tflite", env, [_tensor(detail) for detail in inputs])
        output = _decision(outputs, file.with_name(OUTPUT_SPEC))
        self._output = output["index"]
        self._choose = bind_output("tflite", env, _tensor(output))
        # What the model gives is advice, and an action may count in another unit.
        self._unit = env.task.advice_unit

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the model decides."""
        try:
            for place, read in zip(self._places, self._inputs, strict=True):
                self._model.set_tensor(place, read(observation))
            self._model.invoke()
            output = self._model.get_tensor(self._output)
        except (ValueError, RuntimeError) as error:
            raise PolicyError(f"{self._file} was to decide, and its model cannot be run: {error}") from error
        if self._unit != 1.0:
            output = output / np.float32(self._unit)
        return self._choose(output, info.get("action_mask"))


def _check_size(details: list[dict[str, Any]], file: Path) -> None:
    wanted = sum(math.prod(map(int, detail["shape"])) * np.dtype(detail["dtype"]).itemsize for detail in details)
    if wanted > MOST_BYTES:
        raise PolicyError(
            f"{file} was to be a model whose tensors take {MOST_BYTES:,} bytes at most, and asks for {wanted:,}; take "
            "a smaller one"
        )


def _tensor(detail: Mapping[str, Any]) -> ModelTensor:
    name = detail["name"].partition(":")[0].removeprefix("serving_default_").removeprefix("action_")
    return ModelTensor(name, tuple(int(extent) for extent in detail["shape"]), np.dtype(detail["dtype"]))


def _decision(outputs: list[dict[str, Any]], spec: Path) -> dict[str, Any]:
    """Return the output that is the decision: the first that the file names, or the only one."""
    names = [output["name"] for output in outputs]
    if not spec.exists():
        if len(outputs) != 1:
            raise PolicyError(f"{spec} was to say which of the outputs {', '.join(names)} decides; write that file")
        return outputs[0]
    try:
        wanted = parse_json(read_foreign(spec))[0]["tensor_spec"]
        name, port = wanted["name"], wanted.get("port", 0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise PolicyError(
            f"{spec} was to be a list of outputs with a tensor_spec each: {error!r}; correct it"
        ) from error
    for output in outputs:
        if output["name"] in (f"{name}:{port}", name):
            return output
    raise PolicyError(f"{spec} says that {name}:{port} decides, and the model has {', '.join(names)}; correct it")
