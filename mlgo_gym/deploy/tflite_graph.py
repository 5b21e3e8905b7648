"""The tensor operations of a network in TensorFlow Lite's format, by the library's own description of that format."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.extras import library

LOGARITHMS = 2**15
"""Of whole numbers below this the logarithms are in a table: the format has none of double precision.

In the 111,724 labelled decisions of docs/results/labels no feature is beyond 15,130. Larger ones take float32's
logarithm, whose last bit may differ.
"""

_VERSION, _IDENTIFIER = 3, b"TFL3"


class TfliteGraph:
    """A TensorFlow Lite model of one subgraph in the making; a tensor is its number, and there is no batch.

    Args:
        name: what it is called.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
    """

    def __init__(self, name: str) -> None:
        feature, extra = "an export to TensorFlow Lite", "tflite"
        self._flatbuffers = library("flatbuffers", feature, extra)
        self._schema = library("ai_edge_litert.schema_py_generated", feature, extra)
        schema = self._schema
        self._model, self._graph = schema.ModelT(), schema.SubGraphT()
        self._model.version, self._model.description = _VERSION, f"{name}, by mlgo-gym"
        # The first buffer is empty by convention: that of all tensors without contents.
        self._model.buffers, self._model.operatorCodes, self._model.subgraphs = [schema.BufferT()], [], [self._graph]
        self._graph.name = "main"
        self._graph.tensors, self._graph.operators = [], []
        self._graph.inputs, self._graph.outputs = [], []
        self._codes: dict[int, int] = {}

    def input(self, name: str) -> int:
        """Add an input, int64 of one element."""
        number = self._tensor((1,), np.int64, name)
        self._graph.inputs.append(number)
        return number

    def output(self, values: int, name: str, *, first: bool = False) -> None:
        """Make a tensor an output."""
        self._graph.tensors[values].name = name
        self._graph.outputs.insert(0 if first else len(self._graph.outputs), values)

    def constant(self, values: npt.NDArray[Any]) -> int:
        """Return a table that is part of the model, of any type."""
        table = np.asarray(values, order="C")
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(table.tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        number = self._tensor(table.shape, table.dtype, "")
        self._graph.tensors[number].buffer = len(self._model.buffers) - 1
        return number

    def as_float(self, inputs: list[int]) -> int:
        """Return tensors of one int64 each as one of float32."""
        joined = self._operate("CONCATENATION", inputs, (len(inputs),), np.int64, "Concatenation", axis=0)
        return self._cast(joined, np.float32)

    def below(self, number: int, bound: int) -> int:
        """Return whether an int64 is below a bound, as int64."""
        less = self._operate("LESS", [number, self.constant(np.array([bound], np.int64))], (1,), np.bool_, "Less")
        return self._cast(less, np.int64)

    def add(self, left: int, right: int) -> int:
        """Return the sum of each pair."""
        return self._pair("ADD", "Add", left, right)

    def subtract(self, left: int, right: int) -> int:
        """Return the difference of each pair."""
        return self._pair("SUB", "Sub", left, right)

    def multiply(self, left: int, right: int) -> int:
        """Return the product of each pair."""
        return self._pair("MUL", "Mul", left, right)

    def minimum(self, left: int, right: int) -> int:
        """Return the lesser of each pair."""
        return self._pair("MINIMUM", "MaximumMinimum", left, right)

    def maximum(self, left: int, right: int) -> int:
        """Return the greater of each pair."""
        return self._pair("MAXIMUM", "MaximumMinimum", left, right)

    def signed_log(self, values: int) -> int:
        """Return `sign(x) · log(1 + abs(x))` of whole numbers, from a table as far as that goes."""
        shape = self._shape(values)
        size = self._operate("ABS", [values], shape, np.float32, "Abs")
        table = np.log1p(np.arange(LOGARITHMS, dtype=np.float64)).astype(np.float32)
        last = self.constant(np.full(1, LOGARITHMS - 1, np.float32))
        index = self._cast(self.minimum(size, last), np.int32)
        near = self._operate("GATHER", [self.constant(table), index], shape, np.float32, "Gather", axis=0)
        more = self.add(size, self.constant(np.ones(1, np.float32)))
        far = self._operate("LOG", [more], shape, np.float32)
        logarithm = self._select(self._compare("GREATER", "Greater", size, last), far, near)
        negative = self._operate("NEG", [logarithm], shape, np.float32, "Neg")
        return self._select(self._below_0(values), negative, logarithm)

    def rank(self, values: int, quantiles: npt.NDArray[np.float32]) -> int:
        """Return how many of its feature's quantiles each is above, less how many it is below."""
        (size,) = self._shape(values)
        wide, table = self._reshape(values, (size, 1)), self.constant(quantiles)
        above = self._cast(self._compare("GREATER", "Greater", wide, table), np.float32)
        under = self._cast(self._compare("LESS", "Less", wide, table), np.float32)
        sides, axis = self.subtract(above, under), self.constant(np.array([1], np.int32))
        return self._operate("SUM", [sides, axis], (size,), np.float32, "Reducer", keepDims=False)

    def product(self, values: int, weight: npt.NDArray[np.float32]) -> int:
        """Return the matrix product: the last row of a cumulative sum."""
        inputs, outputs = weight.shape
        products = self.multiply(self._reshape(values, (inputs, 1)), self.constant(weight))
        axis = self.constant(np.array(0, np.int32))
        sums = self._operate("CUMSUM", [products, axis], (inputs, outputs), np.float32, "Cumsum")
        last = self.constant(np.array(inputs - 1, np.int32))
        return self._operate("GATHER", [sums, last], (outputs,), np.float32, "Gather", axis=0)

    def tanh(self, values: int) -> int:
        """Return the hyperbolic tangent, of float32: its last bit is that of the library."""
        return self._operate("TANH", [values], self._shape(values), np.float32)

    def elu(self, values: int) -> int:
        """Return `exp(x) - 1` below 0, of float32: its last bit is that of the library."""
        return self._operate("ELU", [values], self._shape(values), np.float32)

    def decision(self, logits: int, outputs: int) -> int:
        """Return what a network's outputs decide, int64 of shape (1,): a tie is a no."""
        if outputs == 1:
            yes = self._compare("GREATER", "Greater", logits, self.constant(np.zeros(1, np.float32)))
        else:
            places = (self.constant(np.array([each], np.int32)) for each in (0, 1))
            no, for_it = (
                self._operate("GATHER", [logits, place], (1,), np.float32, "Gather", axis=0) for place in places
            )
            yes = self._compare("GREATER", "Greater", for_it, no)
        return self._cast(yes, np.int64)

    def finish(self) -> bytes:
        """Return the model."""
        for number, tensor in enumerate(self._graph.tensors):
            tensor.name = tensor.name or f"t{number}"
        builder = self._flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def _shape(self, number: int) -> tuple[int, ...]:
        return tuple(self._graph.tensors[number].shape)

    def _tensor(self, shape: tuple[int, ...], dtype: Any, name: str) -> int:
        kinds = {"float32": "FLOAT32", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), 0
        tensor.type = getattr(self._schema.TensorType, kinds[np.dtype(dtype).name])
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _operate(
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

    def _pair(self, code: str, options: str, left: int, right: int) -> int:
        shape = np.broadcast_shapes(self._shape(left), self._shape(right))
        return self._operate(code, [left, right], shape, np.float32, options)

    def _compare(self, code: str, options: str, left: int, right: int) -> int:
        shape = np.broadcast_shapes(self._shape(left), self._shape(right))
        return self._operate(code, [left, right], shape, np.bool_, options)

    def _below_0(self, values: int) -> int:
        return self._compare("LESS", "Less", values, self.constant(np.zeros(1, np.float32)))

    def _select(self, condition: int, yes: int, no: int) -> int:
        return self._operate("SELECT_V2", [condition, yes, no], self._shape(yes), np.float32, "SelectV2")

    def _reshape(self, values: int, shape: tuple[int, ...]) -> int:
        wanted = self.constant(np.array(shape, np.int32))
        return self._operate("RESHAPE", [values, wanted], shape, np.float32, "Reshape", newShape=list(shape))

    def _cast(self, values: int, dtype: Any) -> int:
        before = self._graph.tensors[values]
        number = self._operate("CAST", [values], self._shape(values), dtype, "Cast")
        options = self._graph.operators[-1].builtinOptions
        options.inDataType, options.outDataType = before.type, self._graph.tensors[number].type
        return number
