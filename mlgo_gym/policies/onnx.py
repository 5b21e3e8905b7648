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
            self._model = onnxruntime.InferenceSession(path.read_bytes(), options, ["CPUExecutionProvider"])
        except Exception as error:  # the errors of onnxruntime have no root of their own
            raise PolicyError(f"{path} was to be an ONNX model, and cannot be used: {error}") from error
        inputs = [_tensor(each) for each in self._model.get_inputs()]
        self._inputs = dict(zip((each.name for each in inputs), bind_inputs("onnx", env, inputs), strict=True))
        output = self._model.get_outputs()[0]
        self._outputs = [output.name]
        self._choose = bind_output("onnx", env, _tensor(output))
        self._batched = all(tensor.batched for tensor in (*inputs, _tensor(output)))

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the model decides."""
        feed = {name: read(observation) for name, read in self._inputs.items()}
        return self._choose(self._model.run(self._outputs, feed)[0], info.get("action_mask"))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return what the model decides: at once where its first dimensions are free, else one by one."""
        each = [row(observations, number) for number in range(len(infos))]
        if not self._batched:
            return [self.act(observation, info) for observation, info in zip(each, infos, strict=True)]
        feed = {name: np.concatenate([read(one) for one in each]) for name, read in self._inputs.items()}
        outputs = self._model.run(self._outputs, feed)[0]
        return [self._choose(output, info.get("action_mask")) for output, info in zip(outputs, infos, strict=True)]


def _tensor(detail: Any) -> ModelTensor:
    if detail.type not in _TYPES:
        raise PolicyError(f"tensors of numbers were wanted, and {detail.name} is {detail.type}; export another model")
    shape = tuple(extent if isinstance(extent, int) else 1 for extent in detail.shape)
    batched = bool(detail.shape) and not isinstance(detail.shape[0], int)
    return ModelTensor(detail.name, shape, np.dtype(_TYPES[detail.type]), batched)
