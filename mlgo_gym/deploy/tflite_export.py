"""A network as the folder of a TensorFlow Lite model, for `-ml-inliner-model-under-training` of LLVM.

The rules are in llvm/lib/Analysis/TFLiteUtils.cpp and DevelopmentModeInlineAdvisor.cpp: inputs `action_FEATURE:0`,
int64 of one element, and an output that `output_spec.json` names. `tflite:FOLDER` reads the folder back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.deploy.exports import DefaultRule, write_export
from mlgo_gym.deploy.network_graph import DECISION, LOGITS, Binary, check_outputs, forward
from mlgo_gym.extras import library
from mlgo_gym.policies.foreign_model import MODEL, OUTPUT_SPEC
from mlgo_gym.policies.network import Network

LOGARITHMS = 2**15
"""Logarithms of whole numbers below this are in a table, because the format has none of double precision.

No feature of the 111,724 bundled labels is above 15,130. The float32 logarithm of larger numbers may
differ in the last bit.
"""

_PREFIX = "action_"
"""LLVM's prefix of each feature, unless `-ml-inliner-trained-model-feed-prefix` names another."""

_VERSION, _IDENTIFIER = 3, b"TFL3"
_BINARY = {
    "add": ("ADD", "Add"),
    "subtract": ("SUB", "Sub"),
    "multiply": ("MUL", "Mul"),
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
    graph = _Graph(name)
    inputs = list(network.features)
    if rule is not None and rule.feature in inputs:
        inputs.remove(rule.feature)
        inputs += [] if rule.cost in inputs else [rule.cost]
    columns = {feature: graph.input(feature) for feature in inputs}
    if rule is not None and rule.feature in network.features:
        bound = graph.constant(np.array([rule.threshold], np.int64))
        columns[rule.feature] = graph.cast(graph.compare("LESS", columns[rule.cost], bound), np.int64)
    features = graph.cast(graph.join([columns[feature] for feature in network.features]), np.float32)
    logits = forward(graph, network, features)
    graph.output(graph.decision(logits, network.outputs), DECISION)
    graph.output(logits, LOGITS)
    return graph.finish()


def output_spec() -> str:
    """Return the `output_spec.json` of these models: a list of outputs, the first of which decides."""
    spec = {"name": DECISION, "port": 0, "shape": [1], "type": "int64_t"}
    return json.dumps([{"logging_name": DECISION, "tensor_spec": spec}], indent=1) + "\n"


def write_tflite_folder(folder: Path, model: bytes) -> None:
    """Write the folder of a model, or raise an MlgoError."""
    write_export(folder / MODEL, model)
    write_export(folder / OUTPUT_SPEC, output_spec().encode())


class _Graph:
    """A model of one subgraph under construction; a tensor is its number, of one dimension, and there is no batch.

    Truth values are float32, 0 or 1.
    """

    def __init__(self, name: str) -> None:
        feature, extra = "an export to TensorFlow Lite", "tflite"
        self._flatbuffers = library("flatbuffers", feature, extra)
        self._schema = schema = library("ai_edge_litert.schema_py_generated", feature, extra)
        self._model, self._graph = schema.ModelT(), schema.SubGraphT()
        self._model.version, self._model.description = _VERSION, f"{name}, by mlgo-gym"
        # By convention the first buffer is empty and belongs to all tensors without contents.
        self._model.buffers, self._model.operatorCodes, self._model.subgraphs = [schema.BufferT()], [], [self._graph]
        self._graph.name = "main"
        self._graph.tensors, self._graph.operators = [], []
        self._graph.inputs, self._graph.outputs = [], []
        self._codes: dict[int, int] = {}

    def input(self, feature: str) -> int:
        number = self._tensor((1,), np.int64, f"{_PREFIX}{feature}:0")
        self._graph.inputs.append(number)
        return number

    def output(self, values: int, name: str) -> None:
        self._graph.tensors[values].name = f"{name}:0"
        self._graph.outputs.append(values)

    def constant(self, values: npt.NDArray[Any]) -> int:
        table = np.asarray(values, order="C")
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(table.tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        number = self._tensor(table.shape, table.dtype, "")
        self._graph.tensors[number].buffer = len(self._model.buffers) - 1
        return number

    def binary(self, operation: Binary, left: int, right: int) -> int:
        code, options = _BINARY[operation]
        return self._operate(code, [left, right], self._joint_shape(left, right), np.float32, options)

    def signed_log(self, values: int) -> int:
        shape = self._shape(values)
        size = self._operate("ABS", [values], shape, np.float32, "Abs")
        table = np.log1p(np.arange(LOGARITHMS, dtype=np.float64)).astype(np.float32)
        last = self.constant(np.full(1, LOGARITHMS - 1, np.float32))
        near = self.gather(self.constant(table), self.cast(self.binary("minimum", size, last), np.int32))
        more = self.binary("add", size, self.constant(np.ones(1, np.float32)))
        logarithm = self.choose(self.compare("GREATER", size, last), self._operate("LOG", [more], shape), near)
        negative = self._operate("NEG", [logarithm], shape, np.float32, "Neg")
        is_negative = self.compare("LESS", values, self.constant(np.zeros(1, np.float32)))
        return self.choose(is_negative, negative, logarithm)

    def product(self, values: int, weight: npt.NDArray[np.float32]) -> int:
        # The last row of a cumulative sum.
        (length,) = self._shape(values)
        column = self._operate("RESHAPE", [values, self.constant(np.array([length, 1], np.int32))], (length, 1))
        products = self.binary("multiply", column, self.constant(weight))
        axis = self.constant(np.array(0, np.int32))
        sums = self._operate("CUMSUM", [products, axis], weight.shape, np.float32, "Cumsum")
        return self.gather(sums, self.constant(np.array(length - 1, np.int32)))

    def tanh(self, values: int) -> int:
        # Of float32: the last bit is the library's.
        return self._operate("TANH", [values], self._shape(values))

    def decision(self, logits: int, outputs: int) -> int:
        """Return the decision of a network's outputs, int64 of shape (1,); equal outputs give 0."""
        no, yes = self.constant(np.zeros(1, np.float32)), logits
        if outputs == 2:
            no, yes = (self.gather(logits, self.constant(np.array([index], np.int32))) for index in (0, 1))
        return self.cast(self.compare("GREATER", yes, no), np.int64)

    def join(self, parts: list[int]) -> int:
        return self._operate("CONCATENATION", parts, (len(parts),), np.int64, "Concatenation", axis=0)

    def compare(self, code: str, left: int, right: int) -> int:
        options = code.title().replace("_", "")
        condition = self._operate(code, [left, right], self._joint_shape(left, right), np.bool_, options)
        return self.cast(condition, np.float32)

    def choose(self, truth: int, yes: int, no: int) -> int:
        """Return elements of `yes` where a truth value is 1, else those of `no`; `yes` has the full shape."""
        inputs = [truth, self.constant(np.zeros(1, np.float32))]
        condition = self._operate("GREATER", inputs, self._shape(truth), np.bool_, "Greater")
        return self._operate("SELECT_V2", [condition, yes, no], self._shape(yes), np.float32, "SelectV2")

    def gather(self, values: int, index: int) -> int:
        """Return the rows of float32 at the indices, whose shape replaces the first dimension."""
        shape = (*self._shape(index), *self._shape(values)[1:])
        return self._operate("GATHER", [values, index], shape, np.float32, "Gather", axis=0)

    def cast(self, values: int, dtype: Any) -> int:
        before = self._graph.tensors[values]
        number = self._operate("CAST", [values], self._shape(values), dtype, "Cast")
        options = self._graph.operators[-1].builtinOptions
        options.inDataType, options.outDataType = before.type, self._graph.tensors[number].type
        return number

    def finish(self) -> bytes:
        """Return the bytes of the model."""
        for number, tensor in enumerate(self._graph.tensors):
            tensor.name = tensor.name or f"t{number}"
        builder = self._flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def _shape(self, number: int) -> tuple[int, ...]:
        return tuple(self._graph.tensors[number].shape)

    def _joint_shape(self, left: int, right: int) -> tuple[int, ...]:
        return np.broadcast_shapes(self._shape(left), self._shape(right))

    def _tensor(self, shape: tuple[int, ...], dtype: Any, name: str) -> int:
        kinds = {"float32": "FLOAT32", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), 0
        tensor.type = getattr(self._schema.TensorType, kinds[np.dtype(dtype).name])
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _operate(
        self,
        code: str,
        inputs: list[int],
        shape: tuple[int, ...],
        dtype: Any = np.float32,
        options: str = "",
        **settings: Any,
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
