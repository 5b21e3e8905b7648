"""The process in which somebody else's model runs: a program that `ModelProcess` starts.

    python -I -S model_worker.py KIND REQUESTS ANSWERS MEMORY [ENTRY OF sys.path …]

REQUESTS and ANSWERS are descriptors, MEMORY the most bytes of address space beyond what its libraries take. It imports
nothing of this package, so that it starts quickly and holds nothing that a damaged model could damage, and ends when
nobody can ask any more. Every frame is a letter, a length and so many bytes:

| frame | from | bytes |
|---|---|---|
| `M` | the host | a model, which takes the place of the one before |
| `D` | here | what it takes and gives: JSON, `[inputs, outputs]`, each a list of `[name, dimensions, dtype]` |
| `R` | the host | the number of an output and of rows, and the inputs, one after the other |
| `O` | here | that output |
| `E` | here | why not |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

LARGEST = 256 << 20
"""The most bytes that the tensors of a TensorFlow Lite model may take: a file of a kilobyte can ask for any size."""

LONGEST_ERROR = 4096
"""The most characters of what is said about an error."""

_ONNX_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(bool)": "bool",
}

Described = list[tuple[str, list[int | None], str]]
Run = Callable[[int, int, memoryview], bytes]
"""Takes the number of an output, how many rows there are, and the inputs; returns that output."""


def places(inputs: Described, rows: int) -> tuple[bytearray, list[Any]]:
    """Return memory for the inputs of a model, one after the other, and arrays that are its parts.

    Args:
        inputs: the inputs.
        rows: how long a first dimension is that is not fixed.
    """
    import itertools
    import math

    import numpy as np

    shapes = [[1 if extent is None else extent for extent in extents] for _, extents, _ in inputs]
    for shape, (_, extents, _) in zip(shapes, inputs, strict=True):
        shape[:1] = [rows] if extents[:1] == [None] else shape[:1]
    dtypes = [np.dtype(kind) for *_, kind in inputs]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    memory = bytearray(sum(sizes))
    starts = [0, *itertools.accumulate(sizes)]
    return memory, [np.ndarray(*each) for each in zip(shapes, dtypes, itertools.repeat(memory), starts, strict=False)]


def tflite(model: bytes) -> tuple[Described, Described, Run]:
    """Return what a TensorFlow Lite model takes and gives, and what runs it."""
    import math
    from functools import lru_cache

    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)
    details = interpreter.get_tensor_details()
    wanted = sum(math.prod(map(int, each["shape"])) * np.dtype(each["dtype"]).itemsize for each in details)
    if wanted > LARGEST:
        raise ValueError(f"its tensors may take {LARGEST:,} bytes, and it asks for {wanted:,}; take a smaller one")
    interpreter.allocate_tensors()

    def described(tensors: list[dict[str, Any]]) -> Described:
        return [(each["name"], [int(n) for n in each["shape"]], np.dtype(each["dtype"]).name) for each in tensors]

    inputs, outputs = described(interpreter.get_input_details()), described(interpreter.get_output_details())
    takes = [each["index"] for each in interpreter.get_input_details()]
    gives = [each["index"] for each in interpreter.get_output_details()]
    # There may be as many inputs as features: arrays for them are made once.
    held = lru_cache(maxsize=1)(lambda: places(inputs, 1))

    def run(output: int, rows: int, given: memoryview) -> bytes:  # noqa: ARG001 - there is one row
        memory, arrays = held()
        memory[:] = given
        for index, array in zip(takes, arrays, strict=True):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return bytes(interpreter.get_tensor(gives[output]).tobytes())

    return inputs, outputs, run


def onnx(model: bytes) -> tuple[Described, Described, Run]:
    """Return what an ONNX model takes and gives, and what runs it."""
    from functools import lru_cache

    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # From memory, so that the model can name no other file.
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])

    def described(tensors: Any) -> Described:
        found: Described = []
        for each in tensors:
            extents = [extent if isinstance(extent, int) else None for extent in each.shape]
            found.append((each.name, extents, _ONNX_TYPES.get(each.type, each.type)))
        return found

    inputs, outputs = described(session.get_inputs()), described(session.get_outputs())
    names = [name for name, *_ in inputs]
    held = lru_cache(maxsize=16)(lambda rows: places(inputs, rows))

    def run(output: int, rows: int, given: memoryview) -> bytes:
        memory, arrays = held(rows)
        memory[:] = given
        found = session.run([outputs[output][0]], dict(zip(names, arrays, strict=True)))
        return bytes(found[0].tobytes())

    return inputs, outputs, run


def sb3(weights: bytes) -> tuple[Described, Described, Run]:
    """Return the tensors of a file of PyTorch's as what a model gives, and what reads them."""
    import io

    import torch

    state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    arrays = {str(name): tensor.numpy() for name, tensor in state.items()}
    outputs: Described = [(name, list(array.shape), array.dtype.name) for name, array in arrays.items()]

    def run(output: int, rows: int, given: memoryview) -> bytes:  # noqa: ARG001 - nothing is computed
        return bytes(arrays[outputs[output][0]].tobytes())

    return [], outputs, run


def limit(memory: int) -> None:
    """Take no more address space than so many bytes beyond what there is now, and write no file."""
    import os
    import resource
    from pathlib import Path

    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for limited, most in ((resource.RLIMIT_AS, mapped + memory), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(limited)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limited, (most, most))


def main(kind: str, requests: int, answers: int, memory: int) -> None:
    """Answer requests until there are no more."""
    import importlib
    import json
    import os
    import struct

    # Where there are many processors, threads that nothing needs would take more memory than there may be.
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    header, place = struct.Struct("<cI"), struct.Struct("<II")
    load, library = {
        "tflite": (tflite, "ai_edge_litert.interpreter"),
        "onnx": (onnx, "onnxruntime"),
        "sb3": (sb3, "torch"),
    }[kind]
    run: Run | None = None

    def answer(letter: bytes, data: bytes) -> None:
        rest = memoryview(header.pack(letter, len(data)) + data)
        while rest:
            rest = rest[os.write(answers, rest) :]

    # Nothing of a stranger's is read before the limits hold.
    importlib.import_module(library)
    limit(memory)
    with open(requests, "rb") as stream:
        while len(head := stream.read(header.size)) == header.size:
            letter, size = header.unpack(head)
            data = bytearray(size)
            if stream.readinto(data) != size:
                return
            try:
                if letter == b"M":
                    run = None
                    inputs, outputs, run = load(bytes(data))
                    answer(b"D", json.dumps([inputs, outputs]).encode())
                else:
                    assert run is not None, "there is no model to run"
                    number, rows = place.unpack_from(data)
                    answer(b"O", run(number, rows, memoryview(data)[place.size :]))
            except Exception as error:  # noqa: BLE001 - the runtimes' errors have no root of their own
                said = str(error) or type(error).__name__
                answer(b"E", said[:LONGEST_ERROR].encode(errors="backslashreplace"))


if __name__ == "__main__":
    # What the host finds is found here, and not this folder, whose modules are called as some of the library.
    sys.path[:] = sys.argv[5:]
    main(sys.argv[1], *map(int, sys.argv[2:5]))
