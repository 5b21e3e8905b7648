"""The policies `tflite:FILE`: models in TensorFlow Lite, for instance of google/ml-compiler-opt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.foreign_model import ForeignModel, ForeignPolicy
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.model_tensors import ModelTensor, bind_inputs, bind_output
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

MODEL = "model.tflite"
OUTPUT_SPEC = "output_spec.json"
"""Files of a model for LLVM's `-ml-inliner-model-under-training`."""


class TflitePolicy(ForeignPolicy):
    """Runs a TensorFlow Lite model in a process of its own, by LLVM's rules (llvm/lib/Analysis/TFLiteUtils.cpp).

    The model has one input for each feature that it uses, with the feature's name; `serving_default_`, `action_` and
    the port after the colon are no part of the name. The file `output_spec.json` beside it names the output that
    decides. Without that file the model has one output.

    Args:
        env: the environment.
        path: the model, or a folder with `model.tflite`.
        process: the process that runs the model; None starts one.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: the file is no such model, a feature is missing, or the output is no action.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        file = path / MODEL if path.is_dir() else path
        model = ForeignModel("tflite", file, process)
        inputs = bind_inputs("tflite", env, [_named(tensor) for tensor in model.inputs])
        output = _decision(model.outputs, file.with_name(OUTPUT_SPEC))
        # The model gives advice; an action may have another unit.
        choose = bind_output("tflite", env, model.number_output(output))
        super().__init__(model, inputs, output, choose, env.task.advice_unit)


def _named(tensor: ModelTensor) -> ModelTensor:
    return replace(tensor, name=tensor.name.partition(":")[0].removeprefix("serving_default_").removeprefix("action_"))


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
    for index, found in enumerate(names):
        if found in (f"{name}:{port}", name):
            return index
    raise PolicyError(f"expected one of the outputs {', '.join(names)}, got {name}:{port} in {spec}; correct it")
