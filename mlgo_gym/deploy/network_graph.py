"""A network as a graph of tensor operations: the forward pass of the exports, and the ONNX model of `onnx:FILE`.

The graph computes what `Network` computes, operation by operation: float32, each sum from the first input to the last.
A matrix product would sum in an order that depends on the library and the machine; a cumulative sum has one order.
"""

from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.extras import library
from mlgo_gym.policies.network import CLIP, Network, Normalization

Value = TypeVar("Value")
"""A tensor of a graph under construction."""

Binary = Literal["add", "subtract", "multiply", "minimum", "maximum"]

DECISION = "inlining_decision"
"""The output that is the advice, int64, 0 or 1; named as in llvm/lib/Analysis/MLInlineAdvisor.cpp."""

LOGITS = "logits"
"""The output of the network itself, float32: one number, above 0 for yes, or those of no and yes."""


class Graph(Protocol[Value]):
    """The operations of a model format; tensors are float32, and shapes broadcast as in NumPy."""

    def constant(self, values: npt.NDArray[np.float32]) -> Value:
        """Return a table that is part of the model."""

    def binary(self, operation: Binary, left: Value, right: Value) -> Value:
        """Return an operation of two tensors, element by element."""

    def signed_log(self, values: Value) -> Value:
        """Return `sign(x) · log(1 + abs(x))` of whole numbers, computed in double precision and rounded."""

    def product(self, values: Value, weight: npt.NDArray[np.float32]) -> Value:
        """Return the matrix product, summed from the first input to the last."""

    def tanh(self, values: Value) -> Value:
        """Return the hyperbolic tangent."""


def check_outputs(network: Network) -> None:
    """Raise a PolicyError unless a network chooses between 0 and 1: it has one output or two."""
    if network.outputs not in (1, 2):
        raise PolicyError(f"expected a network with 1 or 2 outputs, got {network.outputs}")


def forward(graph: Graph[Value], network: Network, features: Value) -> Value:
    """Add a network to a graph, given its raw features in its order, and return its outputs."""
    values = features if network.normalization is None else _normalize(graph, network.normalization, features)
    last = len(network.weights) - 1
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        values = graph.binary("add", graph.product(values, weight), graph.constant(bias))
        if layer < last:
            zero = graph.constant(np.zeros(1, np.float32))
            values = graph.tanh(values) if network.activation == "tanh" else graph.binary("maximum", values, zero)
    return values


def _normalize(graph: Graph[Value], normalization: Normalization, values: Value) -> Value:
    values = graph.binary("subtract", graph.signed_log(values), graph.constant(normalization.center))
    values = graph.binary("multiply", values, graph.constant(normalization.factor))
    values = graph.binary("minimum", values, graph.constant(np.full(1, CLIP, np.float32)))
    return graph.binary("maximum", values, graph.constant(np.full(1, -CLIP, np.float32)))


_OPSET, _IR_VERSION = 17, 9
"""Versions of 2022, which today's readers of ONNX support."""

_BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "minimum": "Min", "maximum": "Max"}


def onnx_model(name: str, network: Network) -> bytes:
    """Return an ONNX model.

    It has one input for each feature with the feature's name, int64 of shape (batch, 1). Its outputs are
    `inlining_decision`, int64 of shape (batch, 1), and `logits`, float32 of shape (batch, outputs of the network).
    Raises `MissingExtraError` without onnx, and `PolicyError` for a network with more than two outputs.
    """
    check_outputs(network)
    graph = _OnnxGraph()
    features = graph.cast(graph.node("Concat", *network.features, axis=1), "FLOAT")
    logits = graph.node("Identity", forward(graph, network, features), output=LOGITS)
    if network.outputs == 1:
        no, yes = graph.constant(np.zeros(1, np.float32)), logits
    else:
        no, yes = (graph.node("Gather", logits, graph.constant(np.array([index])), axis=1) for index in (0, 1))
    graph.cast(graph.node("Greater", yes, no), "INT64", DECISION)
    return graph.finish(name, network)


class _OnnxGraph:
    """An ONNX graph under construction; a tensor is its name, and the first dimension is the batch."""

    def __init__(self) -> None:
        self._onnx = library("onnx", "an export to ONNX", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def node(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"t{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def constant(self, values: npt.NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def cast(self, values: str, kind: str, output: str | None = None) -> str:
        return self.node("Cast", values, output=output, to=getattr(self._onnx.TensorProto, kind))

    def binary(self, operation: Binary, left: str, right: str) -> str:
        return self.node(_BINARY[operation], left, right)

    def signed_log(self, values: str) -> str:
        more = self.node("Add", self.node("Abs", self.cast(values, "DOUBLE")), self.constant(np.ones(1)))
        logarithm = self.cast(self.node("Log", more), "FLOAT")
        negative = self.node("Less", values, self.constant(np.zeros(1, np.float32)))
        return self.node("Where", negative, self.node("Neg", logarithm), logarithm)

    def product(self, values: str, weight: npt.NDArray[np.float32]) -> str:
        # The last row of a cumulative sum.
        wide = self.node("Unsqueeze", values, self.constant(np.array([2])))
        sums = self.node("CumSum", self.node("Mul", wide, self.constant(weight)), self.constant(np.array(1)))
        return self.node("Gather", sums, self.constant(np.array(len(weight) - 1)), axis=1)

    def tanh(self, values: str) -> str:
        return self.cast(self.node("Tanh", self.cast(values, "DOUBLE")), "FLOAT")

    def finish(self, name: str, network: Network) -> bytes:
        helper, types = self._onnx.helper, self._onnx.TensorProto
        inputs = [helper.make_tensor_value_info(feature, types.INT64, ["batch", 1]) for feature in network.features]
        outputs = [
            helper.make_tensor_value_info(DECISION, types.INT64, ["batch", 1]),
            helper.make_tensor_value_info(LOGITS, types.FLOAT, ["batch", network.outputs]),
        ]
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="mlgo-gym"
        )
        self._onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString(deterministic=True)
        return data
