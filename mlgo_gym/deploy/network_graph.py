"""A network as a graph of tensor operations: the forward pass of the exports.

The graph computes what `Network` computes, operation by operation: float32, each sum from the first input to the last.
A matrix product would sum in an order that depends on the library and the machine; a cumulative sum has one order.
"""

from typing import Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import CLIP, Network, Normalization

Value = TypeVar("Value")
"""A tensor of a graph under construction."""

Binary = Literal["add", "subtract", "multiply", "minimum", "maximum"]


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
