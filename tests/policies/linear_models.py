"""Models of other libraries: linear ones, which decide `sum(weight · feature) + bias > 0`, and hostile ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_onnx(path: Path, weights: Mapping[str, float], bias: float, *, batch: int | str = 1) -> None:
    """Write an ONNX model with int64 inputs [batch] and an int64 output [batch]; a name makes the dimension free."""
    from onnx import TensorProto, helper, save

    nodes, total = [], "bias"
    constants = [helper.make_tensor("bias", TensorProto.FLOAT, [1], [bias])]
    for name, weight in weights.items():
        constants.append(helper.make_tensor(f"w_{name}", TensorProto.FLOAT, [1], [weight]))
        nodes += [
            helper.make_node("Cast", [name], [f"f_{name}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"f_{name}", f"w_{name}"], [f"p_{name}"]),
            helper.make_node("Add", [total, f"p_{name}"], [f"s_{name}"]),
        ]
        total = f"s_{name}"
    constants.append(helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]))
    nodes += [
        helper.make_node("Greater", [total, "zero"], ["yes"]),
        helper.make_node("Cast", ["yes"], ["decision"], to=TensorProto.INT64),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [batch]) for name in weights]
    outputs = [helper.make_tensor_value_info("decision", TensorProto.INT64, [batch])]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def write_tflite(path: Path, weights: Mapping[str, float], bias: float, *, prefix: str = "action_") -> None:
    """Write a TensorFlow Lite model with int64 inputs and the outputs `logit:0`, float32, and `decision:0`, int64."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.description = 3, "linear"
    model.buffers, model.operatorCodes, model.subgraphs = [schema.BufferT()], [], [graph]
    graph.tensors, graph.operators, graph.inputs, graph.name = [], [], [], "main"
    kinds = {np.float32: schema.TensorType.FLOAT32, np.int64: schema.TensorType.INT64, np.bool_: schema.TensorType.BOOL}

    def tensor(name: str, dtype: Any, value: float | None = None) -> int:
        return _add_tensor(model, graph, name, kinds[dtype], None if value is None else np.array([value], dtype))

    def operate(code: int, inputs: list[int], name: str, dtype: Any, kind: int = 0, options: Any = None) -> int:
        output = tensor(name, dtype)
        _add_operator(model, graph, code, inputs, output, kind, options)
        return output

    def cast(source: int, name: str, before: Any, after: Any) -> int:
        options = schema.CastOptionsT()
        options.inDataType, options.outDataType = kinds[before], kinds[after]
        return operate(schema.BuiltinOperator.CAST, [source], name, after, schema.BuiltinOptions.CastOptions, options)

    total = tensor("bias", np.float32, bias)
    for name, weight in weights.items():
        graph.inputs.append(tensor(f"{prefix}{name}:0", np.int64))
        number = cast(graph.inputs[-1], f"f_{name}", np.int64, np.float32)
        factor = tensor(f"w_{name}", np.float32, weight)
        product = operate(
            schema.BuiltinOperator.MUL,
            [number, factor],
            f"p_{name}",
            np.float32,
            schema.BuiltinOptions.MulOptions,
            schema.MulOptionsT(),
        )
        total = operate(
            schema.BuiltinOperator.ADD,
            [total, product],
            f"s_{name}",
            np.float32,
            schema.BuiltinOptions.AddOptions,
            schema.AddOptionsT(),
        )
    graph.tensors[total].name = "logit:0"
    yes = operate(
        schema.BuiltinOperator.GREATER,
        [total, tensor("zero", np.float32, 0.0)],
        "yes",
        np.bool_,
        schema.BuiltinOptions.GreaterOptions,
        schema.GreaterOptionsT(),
    )
    graph.outputs = [total, cast(yes, "decision:0", np.bool_, np.int64)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def write_huge_onnx(path: Path, feature: str) -> None:
    """Write an ONNX model that fills an array of 64 GiB."""
    from onnx import TensorProto, helper

    constants = [
        helper.make_tensor("size", TensorProto.INT64, [1], [1 << 33]),
        helper.make_tensor("axes", TensorProto.INT64, [1], [0]),
    ]
    nodes = [
        helper.make_node("Expand", [feature, "size"], ["many"]),
        helper.make_node("ReduceSum", ["many", "axes"], ["decision"]),
    ]
    _save_onnx(path, feature, nodes, constants)


def _save_onnx(path: Path, feature: str, nodes: list[Any], constants: list[Any]) -> None:
    from onnx import TensorProto, helper, save

    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in (feature, "decision")]
    graph = helper.make_graph(nodes, "strange", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def _add_tensor(model: Any, graph: Any, name: str, kind: int, value: Any = None) -> int:
    """Add a tensor of one element to a graph, a constant if it has a value, and return its number."""
    from ai_edge_litert import schema_py_generated as schema

    each = schema.TensorT()
    each.name, each.shape, each.type, each.buffer = name, [1], kind, 0
    if value is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(value.tobytes(), np.uint8)
        model.buffers.append(buffer)
        each.buffer = len(model.buffers) - 1
    graph.tensors.append(each)
    return len(graph.tensors) - 1


def _add_operator(model: Any, graph: Any, code: int, inputs: list[int], output: int, kind: int, options: Any) -> None:
    """Add an operator of one output to a graph."""
    from ai_edge_litert import schema_py_generated as schema

    operator_code = schema.OperatorCodeT()
    operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
    operator_code.version = 1
    model.operatorCodes.append(operator_code)
    operator = schema.OperatorT()
    operator.opcodeIndex = len(model.operatorCodes) - 1
    operator.inputs, operator.outputs = inputs, [output]
    operator.builtinOptionsType, operator.builtinOptions = kind, options
    graph.operators.append(operator)
