"""The policies `tflite:FILE`: models in TensorFlow Lite, such as google/ml-compiler-opt trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.model_tensors import ModelTensor, bind_inputs, bind_output
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import parse_json

MODEL = "model.tflite"
OUTPUT_SPEC = "output_spec.json"
"""The files of a model as LLVM's `-ml-inliner-model-under-training` takes it."""


class TflitePolicy:
    """Asks a TensorFlow Lite model, as LLVM does (llvm/lib/Analysis/TFLiteUtils.cpp).

    The model has one input for each feature it knows, named after it; `serving_default_`, `action_` and the port behind
    the colon are not part of the name. Beside it `output_spec.json` says which output is the decision; without that
    file the model has one output. It runs in a process of its own.

    Args:
        env: the environment.
        path: the model, or a folder with `model.tflite`.
        process: where the model runs, if not in a process of its own.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: it is no such model, wants a feature that is not there, or decides something else.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        file = path / MODEL if path.is_dir() else path
        self._model = ForeignModel("tflite", file, process)
        self._inputs = bind_inputs("tflite", env, [_named(tensor) for tensor in self._model.inputs])
        self._output = _decision(self._model.outputs, file.with_name(OUTPUT_SPEC))
        self._choose = bind_output("tflite", env, self._model.deciding(self._output))
        # What the model gives is advice, and an action may count in another unit.
        self._unit = env.task.advice_unit

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the model decides.

        Raises:
            PolicyError: it cannot be run, crashed or took too long; the next decision has a new process.
        """
        output = self._model.run(self._output, (read(observation) for read in self._inputs))
        if self._unit != 1.0:
            output = output / np.float32(self._unit)
        return self._choose(output, info.get("action_mask"))

    def close(self) -> None:
        """End the model's process; it also ends with the policy. Idempotent."""
        self._model.close()


def _named(tensor: ModelTensor) -> ModelTensor:
    return replace(tensor, name=tensor.name.partition(":")[0].removeprefix("serving_default_").removeprefix("action_"))


def _decision(outputs: Sequence[ModelTensor], spec: Path) -> int:
    """Return the number of the output that is the decision: the first that the file names, or the only one."""
    names = [output.name for output in outputs]
    if not spec.exists():
        if len(outputs) != 1:
            raise PolicyError(f"{spec} was to say which of the outputs {', '.join(names)} decides; write that file")
        return 0
    try:
        wanted = parse_json(read_foreign(spec))[0]["tensor_spec"]
        name, port = wanted["name"], wanted.get("port", 0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise PolicyError(
            f"{spec} was to be a list of outputs with a tensor_spec each: {error!r}; correct it"
        ) from error
    for number, found in enumerate(names):
        if found in (f"{name}:{port}", name):
            return number
    raise PolicyError(f"{spec} says that {name}:{port} decides, and the model has {', '.join(names)}; correct it")
