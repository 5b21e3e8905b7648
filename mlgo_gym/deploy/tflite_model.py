"""A network as a TensorFlow Lite model, in the folder that LLVM's `-ml-inliner-model-under-training` takes.

The rules are in llvm/lib/Analysis/TFLiteUtils.cpp and DevelopmentModeInlineAdvisor.cpp: inputs `action_FEATURE:0`,
int64 of one element, and an output that `output_spec.json` names. `tflite:FOLDER` reads the folder back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mlgo_gym.deploy.decision_code import write_export
from mlgo_gym.deploy.inlining_default import DefaultRule
from mlgo_gym.deploy.network_graph import DECISION, LOGITS, Binary, check_outputs, forward
from mlgo_gym.extras import library
from mlgo_gym.policies.foreign_model import MODEL, OUTPUT_SPEC
from mlgo_gym.policies.network import Network

LOGARITHMS = 2**15
"""Logarithms of whole numbers below this are in a table, because the format has none of double precision.

No feature of the 111,724 bundled labels is above 15,130. The float32 logarithm of larger numbers may
differ in the last bit.
"""

PREFIX = "action_"
"""LLVM's prefix of each feature, unless `-ml-inliner-trained-model-feed-prefix` names another."""

_VERSION, _IDENTIFIER = 3, b"TFL3"

_BINARY = {
    "add": ("ADD", "Add"),
    "subtract": ("SUB", "Sub"),
    "multiply": ("MUL", "Mul"),
    "divide": ("DIV", "Div"),
    "minimum": ("MINIMUM", "MaximumMinimum"),
    "maximum": ("MAXIMUM", "MaximumMinimum"),
}


def tflite_model(name: str, network: Network, rule: DefaultRule | None = None) -> bytes:
    """Return a TensorFlow Lite model.

    It has one input for each feature, and two outputs: `inlining_decision:0`, int64, and `logits:0`, float32.

    Args:
        name: name of the model.
        network: a network with one output or two.
        rule: replaces clang's own decision; None makes the decision an input.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: the network has more outputs.
    """
    check_outputs(network)
    graph = TfliteGraph(name)
    inputs = list(network.features)
    if rule is not None and rule.feature in inputs:
        inputs.remove(rule.feature)
        inputs += [] if rule.cost in inputs else [rule.cost]
    columns = {feature: graph.input(f"{PREFIX}{feature}:0") for feature in inputs}
    if rule is not None and rule.feature in network.features:
        columns[rule.feature] = graph.below(columns[rule.cost], rule.threshold)
    features = graph.as_float([columns[feature] for feature in network.features])
    logits = forward(graph, network, features)
    graph.output(logits, f"{LOGITS}:0")
    graph.output(graph.decision(logits, network.outputs), f"{DECISION}:0", first=True)
    return graph.finish()


def output_spec(decision: str = DECISION) -> str:
    """Return the `output_spec.json` of these models: a list of outputs, the first of which decides."""
    spec = {"name": decision, "port": 0, "shape": [1], "type": "int64_t"}
    return json.dumps([{"logging_name": decision, "tensor_spec": spec}], indent=1) + "\n"


def write_tflite_folder(folder: Path, model: bytes, decision: str = DECISION) -> None:
    """Write the folder of a model, or raise an MlgoError."""
    write_export(folder / MODEL, model)
    write_export(folder / OUTPUT_SPEC, output_spec(decision).encode())


class TfliteGraph:
    """A model of one subgraph under construction; a tensor is its number, and there is no batch."""

    def __init__(self, name: str) -> None:
        feature, extra = "an export to TensorFlow Lite", "tflite"
        self._flatbuffers = library("flatbuffers", feature, extra)
        self._schema = library("ai_edge_litert.schema_py_generated", feature, extra)
        schema = self._schema
        self._model, self._graph = schema.ModelT(), schema.SubGraphT()
        self._model.version, self._model.description = _VERSION, f"{name}, by mlgo-gym"
        # By convention the first buffer is empty and belongs to all tensors without contents.
        self._model.buffers, self._model.operatorCodes, self._model.subgraphs = [schema.BufferT()], [], [self._graph]
        self._graph.name = "main"
        self._graph.tensors, self._graph.operators = [], []
        self._graph.inputs, self._graph.outputs = [], []
        self._codes: dict[int, int] = {}

    def input(self, name: str, shape: tuple[int, ...] = (1,), dtype: Any = np.int64) -> int:
        """Add an input."""
        number = self._tensor(shape, dtype, name)
        self._graph.inputs.append(number)
        return number

    def output(self, values: int, name: str, *, first: bool = False) -> None:
        """Name a tensor, and make it an output."""
        self._graph.tensors[values].name = name
        self._graph.outputs.insert(0 if first else len(self._graph.outputs), values)

    def constant(self, values: npt.NDArray[Any]) -> int:
        """Return a table that is part of the model."""
        table = np.asarray(values, order="C")
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(table.tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        number = self._tensor(table.shape, table.dtype, "")
        self._graph.tensors[number].buffer = len(self._model.buffers) - 1
        return number

    def as_float(self, inputs: list[int]) -> int:
        """Return tensors of one int64 each as one of float32."""
        joined = self.operate("CONCATENATION", inputs, (len(inputs),), np.int64, "Concatenation", axis=0)
        return self.cast(joined, np.float32)

    def below(self, number: int, bound: int) -> int:
        """Return as int64 whether an int64 is below a bound."""
        return self.cast(self.compare("LESS", number, self.constant(np.array([bound], np.int64))), np.int64)

    def binary(self, operation: Binary | Literal["divide"], left: int, right: int) -> int:
        """Return an operation of two tensors, element by element."""
        code, options = _BINARY[operation]
        return self.operate(code, [left, right], self._joint_shape(left, right), np.float32, options)

    def signed_log(self, values: int) -> int:
        """Return `sign(x) · log(1 + abs(x))` of whole numbers."""
        shape = self.shape(values)
        size = self.operate("ABS", [values], shape, np.float32, "Abs")
        table = np.log1p(np.arange(LOGARITHMS, dtype=np.float64)).astype(np.float32)
        last = self.constant(np.full(1, LOGARITHMS - 1, np.float32))
        index = self.cast(self.binary("minimum", size, last), np.int32)
        near = self.gather(self.constant(table), index, 0)
        more = self.binary("add", size, self.constant(np.ones(1, np.float32)))
        far = self.operate("LOG", [more], shape, np.float32)
        logarithm = self.select(self.compare("GREATER", size, last), far, near)
        negative = self.operate("NEG", [logarithm], shape, np.float32, "Neg")
        return self.select(self._below_0(values), negative, logarithm)

    def rank(self, values: int, quantiles: npt.NDArray[np.float32]) -> int:
        """Return the number of quantiles below each value, less the number above it."""
        shape = self.shape(values)
        wide, table = self.reshape(values, (*shape, 1)), self.constant(quantiles)
        above = self.cast(self.compare("GREATER", wide, table), np.float32)
        under = self.cast(self.compare("LESS", wide, table), np.float32)
        return self.reduce("SUM", self.binary("subtract", above, under), len(shape))

    def product(self, values: int, weight: npt.NDArray[np.float32]) -> int:
        """Return the matrix product, summed from the first input to the last."""
        # The last row of a cumulative sum.
        shape = self.shape(values)
        products = self.binary("multiply", self.reshape(values, (*shape, 1)), self.constant(weight))
        sums = self.cumulative_sum(products, len(shape) - 1)
        return self.gather(sums, self.constant(np.array(shape[-1] - 1, np.int32)), len(shape) - 1)

    def tanh(self, values: int) -> int:
        """Return the hyperbolic tangent."""
        # Of float32: the last bit is the library's, as in elu.
        return self.operate("TANH", [values], self.shape(values), np.float32)

    def elu(self, values: int) -> int:
        """Return `exp(x) - 1` below 0, and x above."""
        return self.operate("ELU", [values], self.shape(values), np.float32)

    def decision(self, logits: int, outputs: int) -> int:
        """Return the decision of a network's outputs, int64 of shape (1,); equal outputs give 0."""
        if outputs == 1:
            yes = self.compare("GREATER", logits, self.constant(np.zeros(1, np.float32)))
        else:
            indices = (self.constant(np.array([each], np.int32)) for each in (0, 1))
            no_logit, yes_logit = (self.gather(logits, index, 0) for index in indices)
            yes = self.compare("GREATER", yes_logit, no_logit)
        return self.cast(yes, np.int64)

    def finish(self) -> bytes:
        """Return the bytes of the model."""
        for number, tensor in enumerate(self._graph.tensors):
            tensor.name = tensor.name or f"t{number}"
        builder = self._flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the extents of a tensor."""
        return tuple(self._graph.tensors[number].shape)

    def _joint_shape(self, left: int, right: int) -> tuple[int, ...]:
        return np.broadcast_shapes(self.shape(left), self.shape(right))

    def _tensor(self, shape: tuple[int, ...], dtype: Any, name: str) -> int:
        kinds = {"float32": "FLOAT32", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), 0
        tensor.type = getattr(self._schema.TensorType, kinds[np.dtype(dtype).name])
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def operate(
        self, code: str, inputs: list[int], shape: tuple[int, ...], dtype: Any, options: str = "", **settings: Any
    ) -> int:
        """Add an operation with one output; its options are those of `schema.{options}Options`."""
        schema = self._schema
        builtin = getattr(schema.BuiltinOperator, code)
        if builtin not in self._codes:
            entry = schema.OperatorCodeT()
            # Readers from before 2020 look at the deprecated field, which ends at 127.
            entry.builtinCode, entry.deprecatedBuiltinCode, entry.version = builtin, min(builtin, 127), 1
            self._codes[builtin] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(entry)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes[builtin]
        operator.inputs, operator.outputs = inputs, [self._tensor(shape, dtype, "")]
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
            operator.builtinOptions = getattr(schema, f"{options}OptionsT")()
            for name, value in settings.items():
                setattr(operator.builtinOptions, name, value)
        self._graph.operators.append(operator)
        return int(operator.outputs[0])

    def compare(self, code: str, left: int, right: int) -> int:
        """Return a comparison of two tensors, of bool."""
        options = code.title().replace("_", "")
        return self.operate(code, [left, right], self._joint_shape(left, right), np.bool_, options)

    def reduce(self, code: str, values: int, axis: int, *, keep: bool = False) -> int:
        """Return a sum or the like over one axis, which stays with the extent 1 if `keep` is set."""
        shape = list(self.shape(values))
        shape[axis : axis + 1] = [1] if keep else []
        inputs = [values, self.constant(np.array([axis], np.int32))]
        return self.operate(code, inputs, tuple(shape), np.float32, "Reducer", keepDims=keep)

    def cumulative_sum(self, values: int, axis: int, *, exclusive: bool = False) -> int:
        """Return the sums up to each element along an axis, without the element itself if `exclusive` is set."""
        inputs = [values, self.constant(np.array(axis, np.int32))]
        return self.operate("CUMSUM", inputs, self.shape(values), np.float32, "Cumsum", exclusive=exclusive)

    def gather(self, values: int, index: int, axis: int) -> int:
        """Return the slices of float32 at the indices, whose shape replaces the axis."""
        shape = self.shape(values)
        found = (*shape[:axis], *self.shape(index), *shape[axis + 1 :])
        return self.operate("GATHER", [values, index], found, np.float32, "Gather", axis=axis)

    def _below_0(self, values: int) -> int:
        return self.compare("LESS", values, self.constant(np.zeros(1, np.float32)))

    def select(self, condition: int, yes: int, no: int) -> int:
        """Return elements of `yes` where a condition holds, else those of `no`; `yes` has the full shape."""
        return self.operate("SELECT_V2", [condition, yes, no], self.shape(yes), np.float32, "SelectV2")

    def reshape(self, values: int, shape: tuple[int, ...]) -> int:
        """Return the same elements in another shape."""
        extents = self.constant(np.array(shape, np.int32))
        return self.operate("RESHAPE", [values, extents], shape, np.float32, "Reshape", newShape=list(shape))

    def cast(self, values: int, dtype: Any) -> int:
        """Return the elements as another type."""
        before = self._graph.tensors[values]
        number = self.operate("CAST", [values], self.shape(values), dtype, "Cast")
        options = self._graph.operators[-1].builtinOptions
        options.inDataType, options.outDataType = before.type, self._graph.tensors[number].type
        return number
