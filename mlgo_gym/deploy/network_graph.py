"""A network as a graph of tensor operations: the one forward pass behind the exports to ONNX and TensorFlow Lite.

The graph computes what `Network` computes, operation by operation: float32, each sum from the first input to the last.
A matrix product would sum in an order that depends on the library and the machine; a cumulative sum has only one.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import CLIP, Normalization

Value = TypeVar("Value")
"""What stands for a tensor while a graph is made."""

DECISION = "inlining_decision"
"""The output that is the advice, as llvm/lib/Analysis/MLInlineAdvisor.cpp calls it: int64, 0 or 1."""

LOGITS = "logits"
"""The output of the network itself, float32: one number, above 0 for yes, or those of no and yes."""


class Graph(Protocol[Value]):
    """What a format of models can do; every tensor is float32, and what broadcasts in NumPy does here."""

    def constant(self, values: npt.NDArray[np.float32]) -> Value:
        """Return a table that is part of the model."""

    def add(self, left: Value, right: Value) -> Value:
        """Return the sum of each pair."""

    def subtract(self, left: Value, right: Value) -> Value:
        """Return the difference of each pair."""

    def multiply(self, left: Value, right: Value) -> Value:
        """Return the product of each pair."""

    def minimum(self, left: Value, right: Value) -> Value:
        """Return the lesser of each pair."""

    def maximum(self, left: Value, right: Value) -> Value:
        """Return the greater of each pair."""

    def signed_log(self, values: Value) -> Value:
        """Return `sign(x) · log(1 + abs(x))` of whole numbers, of double precision, rounded."""

    def rank(self, values: Value, quantiles: npt.NDArray[np.float32]) -> Value:
        """Return how many of its feature's quantiles each is above, less how many it is below."""

    def product(self, values: Value, weight: npt.NDArray[np.float32]) -> Value:
        """Return the matrix product, summed from the first input to the last."""

    def tanh(self, values: Value) -> Value:
        """Return the hyperbolic tangent."""

    def elu(self, values: Value) -> Value:
        """Return `exp(x) - 1` below 0, and x above."""


def forward(graph: Graph[Value], network: Network, features: Value) -> Value:
    """Add a network to a graph, and return its outputs.

    Args:
        graph: where it goes.
        network: the network.
        features: its raw features, in its order.
    """
    values = features if network.normalization is None else _normalize(graph, network.normalization, features)
    last = len(network.weights) - 1
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        values = graph.add(graph.product(values, weight), graph.constant(bias))
        if number < last:
            values = _activate(graph, network.activation, values)
    return values


def _normalize(graph: Graph[Value], normalization: Normalization, values: Value) -> Value:
    if normalization.method == "quantiles":
        factor = np.full(1, 1 / normalization.quantiles.shape[1]).astype(np.float32)
        return graph.multiply(graph.rank(values, normalization.quantiles), graph.constant(factor))
    if normalization.method != "standard":
        values = graph.signed_log(values)
    if normalization.method == "signed_log":
        return values
    factor = (1 / normalization.scale).astype(np.float32)
    values = graph.multiply(graph.subtract(values, graph.constant(normalization.center)), graph.constant(factor))
    values = graph.minimum(values, graph.constant(np.full(1, CLIP, np.float32)))
    return graph.maximum(values, graph.constant(np.full(1, -CLIP, np.float32)))


def _activate(graph: Graph[Value], activation: str, values: Value) -> Value:
    if activation == "relu":
        return graph.maximum(values, graph.constant(np.zeros(1, np.float32)))
    if activation == "leaky_relu":
        return graph.maximum(values, graph.multiply(values, graph.constant(np.full(1, 0.01, np.float32))))
    return graph.tanh(values) if activation == "tanh" else graph.elu(values)


def check_decides(name: str, network: Network) -> None:
    """Check that a network says no or yes.

    Raises:
        PolicyError: it decides something else.
    """
    if network.outputs not in (1, 2):
        raise PolicyError(f"{name} was to say no or yes, by one output or two, and has {network.outputs}")
