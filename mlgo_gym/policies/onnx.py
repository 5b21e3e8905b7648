"""The policies `onnx:FILE`: models in ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.batching import row
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.model_tensors import bind_inputs, bind_output


class OnnxPolicy:
    """Asks an ONNX model; its first output decides.

    The model has one input for each feature it knows, named after it, or a single one for the whole flat observation.
    It runs in a process of its own.

    Args:
        env: the environment.
        path: the model.
        process: where the model runs, if not in a process of its own.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        PolicyError: it is no such model, wants a feature that is not there, or decides something else.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        self._model = model = ForeignModel("onnx", path, process)
        self._inputs = bind_inputs("onnx", env, model.inputs)
        if not model.outputs:
            raise PolicyError(f"{path} was to be a model with an output that decides, and has none; export another")
        self._choose = bind_output("onnx", env, model.deciding(0))
        self._batched = all(tensor.batched for tensor in (*model.inputs, model.outputs[0]))

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the model decides.

        Raises:
            PolicyError: it cannot be run, crashed or took too long; the next decision has a new process.
        """
        output = self._model.run(0, (read(observation) for read in self._inputs))
        return self._choose(output, info.get("action_mask"))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return what the model decides: at once where its first dimensions are free, else one by one.

        Raises:
            PolicyError: as `act()` does.
        """
        each = [row(observations, number) for number in range(len(infos))]
        if not self._batched:
            return [self.act(observation, info) for observation, info in zip(each, infos, strict=True)]
        arrays = (np.concatenate([read(one) for one in each]) for read in self._inputs)
        outputs = self._model.run(0, arrays, len(infos)).reshape(len(infos), -1)
        return [self._choose(output, info.get("action_mask")) for output, info in zip(outputs, infos, strict=True)]

    def close(self) -> None:
        """End the model's process; it also ends with the policy. Idempotent."""
        self._model.close()
