"""Models of other libraries: linear ones, which decide `sum(weight · feature) + bias > 0`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write_onnx(path: Path, weights: Mapping[str, float], bias: float, *, batch: int | str = 1) -> None:
    """Write an ONNX model with int64 inputs [batch] and an int64 output [batch]; a name makes the dimension free."""
    from onnx import TensorProto, helper

    nodes, total = [], "bias"
    constants = [
        helper.make_tensor(name, TensorProto.FLOAT, [1], [value]) for name, value in (("bias", bias), ("zero", 0))
    ]
    for name, weight in weights.items():
        constants.append(helper.make_tensor(f"w_{name}", TensorProto.FLOAT, [1], [weight]))
        nodes += [
            helper.make_node("Cast", [name], [f"f_{name}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"f_{name}", f"w_{name}"], [f"p_{name}"]),
            helper.make_node("Add", [total, f"p_{name}"], [f"s_{name}"]),
        ]
        total = f"s_{name}"
    nodes.append(helper.make_node("Greater", [total, "zero"], ["yes"]))
    nodes.append(helper.make_node("Cast", ["yes"], ["decision"], to=TensorProto.INT64))
    _save_onnx(path, list(weights), nodes, constants, batch)


def _save_onnx(path: Path, features: list[str], nodes: list[Any], constants: list[Any], batch: int | str) -> None:
    from onnx import TensorProto, helper, save

    *inputs, output = (
        helper.make_tensor_value_info(name, TensorProto.INT64, [batch]) for name in (*features, "decision")
    )
    graph = helper.make_graph(nodes, "made", inputs, [output], constants)
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
        """Add a tensor of one element, a constant if it has a value, and return its number."""
        added = schema.TensorT()
        added.name, added.shape, added.type, added.buffer = name, [1], kinds[dtype], 0
        if value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.array([value], dtype).tobytes(), np.uint8)
            model.buffers.append(buffer)
            added.buffer = len(model.buffers) - 1
        graph.tensors.append(added)
        return len(graph.tensors) - 1

    def operate(kind: str, inputs: list[int], name: str, dtype: Any, **options: Any) -> int:
        """Add an operator of a kind such as `Cast`, and return the number of its output."""
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind.upper())
        code.version = 1
        operator.opcodeIndex = len(model.operatorCodes)
        model.operatorCodes.append(code)
        operator.inputs, operator.outputs = inputs, [tensor(name, dtype)]
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{kind}Options")
        operator.builtinOptions = getattr(schema, f"{kind}OptionsT")()
        for option, value in options.items():
            setattr(operator.builtinOptions, option, value)
        graph.operators.append(operator)
        return int(operator.outputs[0])

    def cast(source: int, name: str, before: Any, after: Any) -> int:
        return operate("Cast", [source], name, after, inDataType=kinds[before], outDataType=kinds[after])

    total = tensor("bias", np.float32, bias)
    for name, weight in weights.items():
        graph.inputs.append(tensor(f"{prefix}{name}:0", np.int64))
        number = cast(graph.inputs[-1], f"f_{name}", np.int64, np.float32)
        product = operate("Mul", [number, tensor(f"w_{name}", np.float32, weight)], f"p_{name}", np.float32)
        total = operate("Add", [total, product], f"s_{name}", np.float32)
    graph.tensors[total].name = "logit:0"
    yes = operate("Greater", [total, tensor("zero", np.float32, 0.0)], "yes", np.bool_)
    graph.outputs = [total, cast(yes, "decision:0", np.bool_, np.int64)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
