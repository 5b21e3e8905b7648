"""The policies `onnx:FILE`: models in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.batching import row
from mlgo_gym.policies.model_tensors import ModelTensor, bind_inputs, bind_output
from mlgo_gym.storage.foreign_file import read_foreign

_TYPES = {
    "tensor(float)": "f4",
    "tensor(double)": "f8",
    "tensor(int64)": "i8",
    "tensor(int32)": "i4",
    "tensor(int8)": "i1",
    "tensor(bool)": "?",
}


class OnnxPolicy:
    """Asks an ONNX model; its first output decides.

    The model has one input for each feature it knows, named after it, or a single one for the whole flat observation.

    Args:
        env: the environment.
        path: the model.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        PolicyError: it is no such model, wants a feature that is not there, or decides something else.
    """

    def __init__(self, env: CompilerEnv, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("an ONNX model", "onnx") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            # From memory, so that the model can name no other file.
            self._model = onnxruntime.InferenceSession(read_foreign(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # the errors of onnxruntime have no root of their own
            raise PolicyError(f"{path} was to be an ONNX model, and cannot be used: {error}") from error
        inputs = [_tensor(each) for each in self._model.get_inputs()]
        self._inputs = dict(zip((each.name for each in inputs), bind_inputs("onnx", env, inputs), strict=True))
        outputs = [_tensor(each) for each in self._model.get_outputs()[:1]]
        if not outputs:
            raise PolicyError(f"{path} was to be a model with an output that decides, and has none; export another")
        self._path = path
        self._outputs = [outputs[0].name]
        self._choose = bind_output("onnx", env, outputs[0])
        self._batched = all(tensor.batched for tensor in (*inputs, *outputs))

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the model decides."""
        feed = {name: read(observation) for name, read in self._inputs.items()}
        return self._choose(self._run(feed), info.get("action_mask"))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return what the model decides: at once where its first dimensions are free, else one by one."""
        each = [row(observations, number) for number in range(len(infos))]
        if not self._batched:
            return [self.act(observation, info) for observation, info in zip(each, infos, strict=True)]
        feed = {name: np.concatenate([read(one) for one in each]) for name, read in self._inputs.items()}
        outputs = self._run(feed)
        return [self._choose(output, info.get("action_mask")) for output, info in zip(outputs, infos, strict=True)]

    def _run(self, feed: Mapping[str, Any]) -> Any:
        try:
            return self._model.run(self._outputs, feed)[0]
        except Exception as error:  # as above
            raise PolicyError(f"{self._path} was to decide, and its model cannot be run: {error}") from error


def _tensor(detail: Any) -> ModelTensor:
    try:
        name, kind, extents = str(detail.name), str(detail.type), list(detail.shape)
    except UnicodeDecodeError as error:
        raise PolicyError(f"tensors with names were wanted, and one is no UTF-8: {error}; export another") from None
    if kind not in _TYPES:
        raise PolicyError(f"tensors of numbers were wanted, and {name} is {kind}; export another model")
    shape = tuple(extent if isinstance(extent, int) else 1 for extent in extents)
    batched = bool(extents) and not isinstance(extents[0], int)
    return ModelTensor(name, shape, np.dtype(_TYPES[kind]), batched)
