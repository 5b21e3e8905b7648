"""A TensorFlow Lite model under construction, from operations that LLVM's lowering of TOSA has as well."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mlgo_gym.deploy.network_graph import Binary
from mlgo_gym.extras import library

_PREFIX = "action_"
"""Prefix of each feature's input, as in the models of llvm/lib/Analysis/models."""

_VERSION, _IDENTIFIER = 3, b"TFL3"
_BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div"}


class TfliteGraph:
    """A model of one subgraph under construction; a tensor is its index, and there is no batch."""

    def __init__(self, name: str) -> None:
        feature, extra = "an export to TOSA", "tosa"
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
        """Add an input with a feature's name, int64 of shape (1,), and return it as int32."""
        tensor = self._tensor((1,), np.int64, f"{_PREFIX}{feature}:0")
        self._graph.inputs.append(tensor)
        # TOSA converts int64 to int32 alone; no feature of LLVM exceeds it.
        return self.cast(tensor, np.int32)

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
        """Return an operation on two float32 tensors, element by element."""
        if operation in ("minimum", "maximum"):
            # MLIR has no EmitC of arith.minimumf.
            values = (left, right) if operation == "minimum" else (right, left)
            return self._select(self.compare("LESS", left, right), *values)
        options = _BINARY[operation]
        return self._operate(options.upper(), [left, right], self._joint_shape(left, right), options)

    def signed_log(self, values: int) -> int:
        """Return `sign(x) * log(1 + |x|)`, within 2e-6."""
        shape = self._shape(values)
        logarithm = self._log1p(self._operate("ABS", [values], shape, "Abs"))
        negative = self._operate("NEG", [logarithm], shape, "Neg")
        is_negative = self.compare("LESS", values, self.constant(np.zeros(1, np.float32)))
        return self._select(is_negative, negative, logarithm)

    def _log1p(self, size: int) -> int:
        """Return `log(1 + x)` by Halley's iteration: MLIR has no EmitC of logarithms."""
        shape = self._shape(size)
        one, two, log2 = (self.constant(np.full(1, value, np.float32)) for value in (1, 2, np.log(2)))
        value = self.binary("add", size, one)
        powers = self.constant(np.exp2(np.arange(1, 64, dtype=np.float32)))
        above = self.compare("GREATER_EQUAL", self._reshape(value, (*shape, 1)), powers)
        doublings = self._sum(self.cast(above, np.float32), len(shape))
        logarithm = self.binary("multiply", doublings, log2)
        for _ in range(3):
            power = self._exponential(logarithm)
            ratio = self.binary("divide", self.binary("subtract", value, power), self.binary("add", value, power))
            logarithm = self.binary("add", logarithm, self.binary("multiply", ratio, two))
        return logarithm

    def product(self, values: int, weight: npt.NDArray[np.float32]) -> int:
        """Return the product of a row and a matrix."""
        products = self.binary("multiply", self._reshape(values, (*self._shape(values), 1)), self.constant(weight))
        return self._sum(products, 0)

    def tanh(self, values: int) -> int:
        """Return the hyperbolic tangent, from an exponential."""
        one, two = (self.constant(np.full(1, value, np.float32)) for value in (1, 2))
        power = self._exponential(self.binary("multiply", values, two))
        return self.binary("subtract", one, self.binary("divide", two, self.binary("add", power, one)))

    def join(self, parts: list[int]) -> int:
        """Return int32 tensors of shape (1,) as one tensor."""
        return self._operate("CONCATENATION", parts, (len(parts),), "Concatenation", np.int32, axis=0)

    def compare(self, code: str, left: int, right: int) -> int:
        """Return a comparison, element by element, as truth values."""
        options = code.title().replace("_", "")
        return self._operate(code, [left, right], self._joint_shape(left, right), options, np.bool_)

    def gather(self, values: int, index: int) -> int:
        """Return the elements of a float32 row at the indices."""
        return self._operate("GATHER", [values, index], self._shape(index), "Gather", axis=0)

    def cast(self, values: int, dtype: Any) -> int:
        """Return a tensor in another type."""
        result = self._operate("CAST", [values], self._shape(values), "Cast", dtype)
        options = self._graph.operators[-1].builtinOptions
        options.inDataType, options.outDataType = (self._graph.tensors[tensor].type for tensor in (values, result))
        return result

    def finish(self) -> bytes:
        """Return the bytes of the model, with the features' names in a signature."""
        for index, tensor in enumerate(self._graph.tensors):
            tensor.name = tensor.name or f"t{index}"
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

    def _select(self, condition: int, yes: int, no: int) -> int:
        return self._operate("SELECT_V2", [condition, yes, no], self._joint_shape(yes, no), "SelectV2")

    def _sum(self, values: int, axis: int) -> int:
        shape = self._shape(values)
        inputs = [values, self.constant(np.array([axis], np.int32))]
        return self._operate("SUM", inputs, (*shape[:axis], *shape[axis + 1 :]), "Reducer", keepDims=False)

    def _reshape(self, values: int, shape: tuple[int, ...]) -> int:
        extents = self.constant(np.array(shape, np.int32))
        return self._operate("RESHAPE", [values, extents], shape, "Reshape", newShape=list(shape))

    def _exponential(self, values: int) -> int:
        return self._operate("EXP", [values], self._shape(values), "Exp")

    def _shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self._graph.tensors[tensor].shape)

    def _joint_shape(self, left: int, right: int) -> tuple[int, ...]:
        return np.broadcast_shapes(self._shape(left), self._shape(right))

    def _tensor(self, shape: tuple[int, ...], dtype: Any, name: str) -> int:
        tensor = self._schema.TensorT()
        kind = getattr(self._schema.TensorType, np.dtype(dtype).name.upper())
        tensor.name, tensor.shape, tensor.buffer, tensor.type = name, list(shape), 0, kind
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _operate(
        self,
        code: str,
        inputs: list[int],
        shape: tuple[int, ...],
        options: str,
        dtype: Any = np.float32,
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
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{options}Options")
        operator.builtinOptions = getattr(schema, f"{options}OptionsT")()
        for name, value in settings.items():
            setattr(operator.builtinOptions, name, value)
        self._graph.operators.append(operator)
        return int(operator.outputs[0])
