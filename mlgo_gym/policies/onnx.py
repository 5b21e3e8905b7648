"""The policies `onnx:FILE`: models in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.foreign_model import ForeignModel, ForeignPolicy
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.model_tensors import bind_inputs, bind_output
from mlgo_gym.policies.protocol import row


class OnnxPolicy(ForeignPolicy):
    """Runs an ONNX model in a process of its own; the first output decides.

    The model has one input for each feature that it uses, with the feature's name, or one for the whole flat
    observation.

    Args:
        env: the environment.
        path: the model.
        process: the process that runs the model; None starts one.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        PolicyError: the file is no such model, a feature is missing, or the output is no action.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        model = ForeignModel("onnx", path, process)
        inputs = bind_inputs("onnx", env, model.inputs)
        if not model.outputs:
            raise PolicyError(f"expected a model with an output, got {path}, which has none; export another")
        super().__init__(model, inputs, 0, bind_output("onnx", env, model.number_output(0)))
        self._batched = all(tensor.batched for tensor in (*model.inputs, model.outputs[0]))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the model's decisions, in one run if its first dimensions are free, else one by one.

        Raises:
            PolicyError: as in `act()`.
        """
        singles = [row(observations, number) for number in range(len(infos))]
        if not self._batched:
            return [self.act(observation, info) for observation, info in zip(singles, infos, strict=True)]
        arrays = (np.concatenate([read(single) for single in singles]) for read in self._inputs)
        outputs = self._model.run(0, arrays, len(infos)).reshape(len(infos), -1)
        return [self._choose(output, info.get("action_mask")) for output, info in zip(outputs, infos, strict=True)]
