"""Models of other libraries: linear ones, which decide `sum(weight · feature) + bias > 0`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mlgo_gym.policies.network import Network


def linear(weights: Mapping[str, float], bias: float) -> Network:
    """Return a network of one layer."""
    column = np.array([*weights.values()], np.float32)[:, None]
    return Network(tuple(weights), (column,), (np.array([bias], np.float32),))


def write_onnx(path: Path, weights: Mapping[str, float], bias: float, *, batch: bool = False) -> None:
    """Write an ONNX model with the decision as its first output; `batch` makes the first dimension free."""
    import onnx

    from mlgo_gym.deploy.network_graph import onnx_model

    model = onnx.load_from_string(onnx_model("linear", linear(weights, bias)))
    for value in () if batch else (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    path.write_bytes(model.SerializeToString())


def write_tflite(path: Path, weights: Mapping[str, float], bias: float, *, prefix: str = "action_") -> None:
    """Write a TensorFlow Lite model with the outputs `inlining_decision:0`, int64, and `logits:0`, float32."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from mlgo_gym.deploy.tflite_export import tflite_model

    model = schema.ModelT.InitFromPackedBuf(tflite_model("linear", linear(weights, bias)))
    for tensor in model.subgraphs[0].tensors:
        tensor.name = tensor.name.replace(b"action_", prefix.encode())
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
