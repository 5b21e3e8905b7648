"""The program in which a model of another library runs; `ModelProcess` starts it.

    python -I -S model_worker.py KIND CHANNEL MEMORY [ENTRY OF sys.path …]

CHANNEL is the descriptor of a socket. MEMORY is the address space of a model in bytes, beyond that of its libraries.
The program imports nothing of this package, so it starts quickly, and it exits when the host has closed CHANNEL. A
frame is a letter, a length and that many bytes:

| frame | sender | bytes |
|---|---|---|
| `M` | host | a model, which replaces the one before |
| `D` | worker | its inputs and outputs: JSON, `[inputs, outputs]`, lists of `[name, dimensions, dtype]` |
| `R` | host | the index of an output, the number of rows, and the inputs in order |
| `O` | worker | that output |
| `E` | worker | an error message |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

LARGEST = 256 << 20
"""Maximum size of the tensors of a TensorFlow Lite model in bytes: a file of a kilobyte can request any size."""

LONGEST_ERROR = 4096
"""Maximum length of an error message in characters."""

Described = list[tuple[str, list[int | None], str]]
Run = Callable[[int, int, memoryview], bytes]
"""Takes the index of an output, the number of rows and the inputs; returns the output."""


def input_arrays(inputs: Described, rows: int) -> tuple[bytearray, list[Any]]:
    """Return memory for the inputs of a model in order, and arrays that are its parts; free extents become `rows`."""
    import itertools
    import math

    import numpy as np

    shapes = [
        [(1 if axis else rows) if extent is None else extent for axis, extent in enumerate(extents)]
        for _, extents, _ in inputs
    ]
    dtypes = [np.dtype(kind) for *_, kind in inputs]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    memory, starts = bytearray(sum(sizes)), itertools.accumulate([0, *sizes])
    return memory, [np.ndarray(*part) for part in zip(shapes, dtypes, itertools.repeat(memory), starts, strict=False)]


def tflite(model: bytes) -> tuple[Described, Described, Run]:
    """Return the inputs, the outputs and the function of a TensorFlow Lite model."""
    import math

    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=model, num_threads=1)

    def described(tensors: list[dict[str, Any]]) -> Described:
        return [(each["name"], [*map(int, each["shape"])], np.dtype(each["dtype"]).name) for each in tensors]

    details = described(interpreter.get_tensor_details())
    size = sum(math.prod(extent or 0 for extent in shape) * np.dtype(kind).itemsize for _, shape, kind in details)
    if size > LARGEST:
        raise ValueError(f"expected tensors of at most {LARGEST:,} bytes, got {size:,}; use a smaller model")
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    # There may be one input per feature, so their arrays are allocated once.
    memory, arrays = input_arrays(described(inputs), 1)

    def run(output: int, rows: int, data: memoryview) -> bytes:  # noqa: ARG001 - there is one row
        memory[:] = data
        for tensor, array in zip(inputs, arrays, strict=True):
            interpreter.set_tensor(tensor["index"], array)
        interpreter.invoke()
        return bytes(interpreter.get_tensor(outputs[output]["index"]).tobytes())

    return described(inputs), described(outputs), run


def onnx(model: bytes) -> tuple[Described, Described, Run]:
    """Return the inputs, the outputs and the function of an ONNX model."""
    from functools import lru_cache

    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # From memory, so that the model cannot name other files.
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])

    def described(tensor: Any) -> tuple[str, list[int | None], str]:
        kind = tensor.type.removeprefix("tensor(").removesuffix(")")
        shape = [extent if isinstance(extent, int) else None for extent in tensor.shape]
        return tensor.name, shape, {"float": "float32", "double": "float64"}.get(kind, kind)

    inputs, outputs = [*map(described, session.get_inputs())], [*map(described, session.get_outputs())]
    names = [name for name, *_ in inputs]
    arrays_of = lru_cache(maxsize=16)(lambda rows: input_arrays(inputs, rows))

    def run(output: int, rows: int, data: memoryview) -> bytes:
        memory, arrays = arrays_of(rows)
        memory[:] = data
        (result,) = session.run([outputs[output][0]], dict(zip(names, arrays, strict=True)))
        return bytes(result.tobytes())

    return inputs, outputs, run


def limit(memory: int) -> None:
    """Limit the address space to its present size plus `memory` bytes, and the size of written files to 0."""
    import os
    import resource
    from pathlib import Path

    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    for limited, size in ((resource.RLIMIT_AS, mapped + memory), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(limited)[1]
        size = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(limited, (size, size))


def main(kind: str, channel: int, memory: int) -> None:
    """Serve requests until the host closes the channel."""
    import importlib
    import json
    import os
    import struct

    # On a machine with many cores, unneeded threads would exceed the memory limit.
    for name in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    header, run_header = struct.Struct("<cI"), struct.Struct("<II")
    load, library = {"tflite": (tflite, "ai_edge_litert.interpreter"), "onnx": (onnx, "onnxruntime")}[kind]
    run: Run | None = None

    def answer(letter: bytes, data: bytes) -> None:
        rest = memoryview(header.pack(letter, len(data)) + data)
        while rest:
            rest = rest[os.write(channel, rest) :]

    # The limits apply before any untrusted input is read.
    importlib.import_module(library)
    limit(memory)
    with open(channel, "rb") as stream:
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
                elif run is None:
                    answer(b"E", b"expected a model before its input, got none; load one")
                else:
                    number, rows = run_header.unpack_from(data)
                    answer(b"O", run(number, rows, memoryview(data)[run_header.size :]))
            except Exception as error:  # noqa: BLE001 - the runtimes' errors have no common class
                message = str(error) or type(error).__name__
                answer(b"E", message[:LONGEST_ERROR].encode(errors="backslashreplace"))


if __name__ == "__main__":
    # The host's search path replaces this folder, whose modules have names of libraries.
    sys.path[:] = sys.argv[4:]
    main(sys.argv[1], *map(int, sys.argv[2:4]))
