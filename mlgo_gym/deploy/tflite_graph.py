"""A TensorFlow Lite model under construction, from operations that LLVM's lowering of TOSA has as well if asked to."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mlgo_gym.deploy.network_graph import Binary
from mlgo_gym.extras import library

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
    "divide": ("DIV", "Div"),
    "minimum": ("MINIMUM", "MaximumMinimum"),
    "maximum": ("MAXIMUM", "MaximumMinimum"),
}


class TfliteGraph:
    """A model of one subgraph under construction; a tensor is its number, and there is no batch.

    Truth values are float32, 0 or 1.
    """

    def __init__(self, name: str, *, for_tosa: bool) -> None:
        self._for_tosa = for_tosa
        # TOSA converts int64 to int32 alone; no feature of LLVM exceeds it.
        self.integer = np.int32 if for_tosa else np.int64
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
        """Add an input with a feature's name, int64 of shape (1,)."""
        tensor = self._tensor((1,), np.int64, f"{_PREFIX}{feature}:0")
        self._graph.inputs.append(tensor)
        return self.cast(tensor, self.integer)

    def output(self, values: int, name: str) -> None:
        """Make a tensor an output."""
        self._graph.tensors[values].name = f"{name}:0"
        self._graph.outputs.append(values)

    def constant(self, values: npt.NDArray[Any]) -> int:
        """Return a constant."""
        table = np.asarray(values, order="C")
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(table.tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        tensor = self._tensor(table.shape, table.dtype, "")
        self._graph.tensors[tensor].buffer = len(self._model.buffers) - 1
        return tensor

    def binary(self, operation: Binary | Literal["divide"], left: int, right: int) -> int:
        """Return an operation on two tensors, element by element."""
        code, options = _BINARY[operation]
        if self._for_tosa and options == "MaximumMinimum":
            # MLIR has no EmitC of arith.minimumf.
            values = (left, right) if operation == "minimum" else (right, left)
            inputs = [self._condition("LESS", left, right), *values]
            return self._operate("SELECT_V2", inputs, self._joint_shape(left, right), np.float32, "SelectV2")
        return self._operate(code, [left, right], self._joint_shape(left, right), np.float32, options)

    def signed_log(self, values: int) -> int:
        """Return `sign(x) * log(1 + |x|)`."""
        shape = self._shape(values)
        size = self._operate("ABS", [values], shape, np.float32, "Abs")
        logarithm = self._iterated_log(size) if self._for_tosa else self._table_log(size)
        negative = self._operate("NEG", [logarithm], shape, np.float32, "Neg")
        is_negative = self.compare("LESS", values, self.constant(np.zeros(1, np.float32)))
        return self.choose(is_negative, negative, logarithm)

    def _table_log(self, size: int) -> int:
        table = np.log1p(np.arange(LOGARITHMS, dtype=np.float64)).astype(np.float32)
        last = self.constant(np.full(1, LOGARITHMS - 1, np.float32))
        near = self.gather(self.constant(table), self.cast(self.binary("minimum", size, last), np.int32), 0)
        more = self.binary("add", size, self.constant(np.ones(1, np.float32)))
        logarithm = self._operate("LOG", [more], self._shape(size))
        return self.choose(self.compare("GREATER", size, last), logarithm, near)

    def _iterated_log(self, size: int) -> int:
        """Return `log(1 + x)`, within 2e-6, by Halley's iteration: MLIR has no EmitC of logarithms."""
        shape = self._shape(size)
        one, two, log2 = (self.constant(np.full(1, value, np.float32)) for value in (1, 2, np.log(2)))
        value = self.binary("add", size, one)
        powers = self.constant(np.exp2(np.arange(1, 64, dtype=np.float32)))
        above = self.compare("GREATER_EQUAL", self.reshape(value, (*shape, 1)), powers)
        doublings = self.sum(above, len(shape))
        logarithm = self.binary("multiply", doublings, log2)
        for _ in range(3):
            power = self._exponential(logarithm)
            ratio = self.binary("divide", self.binary("subtract", value, power), self.binary("add", value, power))
            logarithm = self.binary("add", logarithm, self.binary("multiply", ratio, two))
        return logarithm

    def product(self, values: int, weight: npt.NDArray[np.float32]) -> int:
        """Return the product of rows and a matrix."""
        # The last row of a cumulative sum: the order of a sum in one operation is the library's.
        shape = self._shape(values)
        products = self.binary("multiply", self.reshape(values, (*shape, 1)), self.constant(weight))
        if self._for_tosa:
            return self.sum(products, len(shape) - 1)
        inputs = [products, self.constant(np.array(len(shape) - 1, np.int32))]
        sums = self._operate("CUMSUM", inputs, self._shape(products), np.float32, "Cumsum")
        return self.gather(sums, self.constant(np.array(shape[-1] - 1, np.int32)), len(shape) - 1)

    def tanh(self, values: int) -> int:
        """Return the hyperbolic tangent."""
        # Of float32: the last bit is the library's.
        if self._for_tosa:
            one, two = (self.constant(np.full(1, value, np.float32)) for value in (1, 2))
            power = self._exponential(self.binary("multiply", values, two))
            return self.binary("subtract", one, self.binary("divide", two, self.binary("add", power, one)))
        return self._operate("TANH", [values], self._shape(values))

    def _exponential(self, values: int) -> int:
        return self._operate("EXP", [values], self._shape(values), np.float32, "Exp")

    def decision(self, logits: int, outputs: int) -> int:
        """Return the decision of a network's outputs, an integer of shape (1,); equal outputs give 0."""
        no, yes = self.constant(np.zeros(1, np.float32)), logits
        if outputs == 2:
            no, yes = (self.gather(logits, self.constant(np.array([index], np.int32)), 0) for index in (0, 1))
        return self.compare("GREATER", yes, no, self.integer)

    def join(self, parts: list[int], axis: int) -> int:
        """Return tensors joined along an axis."""
        shape = list(self._shape(parts[0]))
        shape[axis] = sum(self._shape(part)[axis] for part in parts)
        is_float = self._graph.tensors[parts[0]].type == self._type(np.float32)
        dtype = np.float32 if is_float else self.integer
        return self._operate("CONCATENATION", parts, tuple(shape), dtype, "Concatenation", axis=axis)

    def compare(self, code: str, left: int, right: int, dtype: Any = np.float32) -> int:
        """Return a comparison, element by element, as 0 or 1."""
        return self.cast(self._condition(code, left, right), dtype)

    def _condition(self, code: str, left: int, right: int) -> int:
        options = code.title().replace("_", "")
        return self._operate(code, [left, right], self._joint_shape(left, right), np.bool_, options)

    def choose(self, truth: int, yes: int, no: int) -> int:
        """Return elements of `yes` where a truth value is 1, else those of `no`; `yes` has the full shape."""
        condition = self._condition("GREATER", truth, self.constant(np.zeros(1, np.float32)))
        return self._operate("SELECT_V2", [condition, yes, no], self._shape(yes), np.float32, "SelectV2")

    def sum(self, values: int, axis: int) -> int:
        """Return the sum over one axis, which leaves."""
        shape = self._shape(values)
        inputs = [values, self.constant(np.array([axis], np.int32))]
        return self._operate("SUM", inputs, (*shape[:axis], *shape[axis + 1 :]), np.float32, "Reducer", keepDims=False)

    def gather(self, values: int, index: int, axis: int) -> int:
        """Return the slices of float32 at the indices, whose shape replaces the axis."""
        shape = self._shape(values)
        slices = (*shape[:axis], *self._shape(index), *shape[axis + 1 :])
        return self._operate("GATHER", [values, index], slices, np.float32, "Gather", axis=axis)

    def reshape(self, values: int, shape: tuple[int, ...]) -> int:
        """Return a tensor in another shape."""
        extents = self.constant(np.array(shape, np.int32))
        return self._operate("RESHAPE", [values, extents], shape, np.float32, "Reshape", newShape=list(shape))

    def cast(self, values: int, dtype: Any) -> int:
        """Return a tensor in another type."""
        before = self._graph.tensors[values]
        if before.type == self._type(dtype):
            return values
        result = self._operate("CAST", [values], self._shape(values), dtype, "Cast")
        options = self._graph.operators[-1].builtinOptions
        options.inDataType, options.outDataType = before.type, self._graph.tensors[result].type
        return result

    def finish(self) -> bytes:
        """Return the bytes of the model, with the features' names in a signature."""
        for index, tensor in enumerate(self._graph.tensors):
            tensor.name = tensor.name or f"t{index}"
        if self._for_tosa:
            signature = self._schema.SignatureDefT()
            signature.signatureKey, signature.subgraphIndex = "action", 0
            signature.inputs, signature.outputs = map(self._signature, (self._graph.inputs, self._graph.outputs))
            self._model.signatureDefs = [signature]
        builder = self._flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def _signature(self, tensors: list[int]) -> list[Any]:
        entries = []
        for tensor in tensors:
            entry = self._schema.TensorMapT()
            name = self._graph.tensors[tensor].name.removeprefix(_PREFIX)
            entry.name, entry.tensorIndex = name.partition(":")[0], tensor
            entries.append(entry)
        return entries

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self._graph.tensors[tensor].shape)

    def _type(self, dtype: Any) -> Any:
        return getattr(self._schema.TensorType, np.dtype(dtype).name.upper())

    def _joint_shape(self, left: int, right: int) -> tuple[int, ...]:
        return np.broadcast_shapes(self._shape(left), self._shape(right))

    def _tensor(self, shape: tuple[int, ...], dtype: Any, name: str) -> int:
        tensor = self._schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer, tensor.type = name, list(shape), 0, self._type(dtype)
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
