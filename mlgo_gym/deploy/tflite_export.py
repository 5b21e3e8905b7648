"""A network as the folder of a TensorFlow Lite model: `-ml-inliner-model-under-training` or `-regalloc-model` of LLVM.

The rules are in llvm/lib/Analysis/TFLiteUtils.cpp, DevelopmentModeInlineAdvisor.cpp, and of evictions in
llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp: inputs `action_FEATURE:0`, int64 of one element for inlining, and an output
that `output_spec.json` names. `tflite:FOLDER` reads the folder back.
"""

import json
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from mlgo_gym.deploy.exports import COST, EVICTION_COLUMNS, EVICTION_INTEGERS, write_export
from mlgo_gym.deploy.network_graph import DECISION, LOGITS, check_outputs, forward
from mlgo_gym.deploy.tflite_graph import TfliteGraph
from mlgo_gym.extras import library
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.foreign_model import MODEL, OUTPUT_SPEC
from mlgo_gym.policies.mlp import COLUMN_FEATURES, decides_evictions
from mlgo_gym.policies.network import Network

EVICTION_DECISION = "index_to_evict"
"""The output of evictions that is the advice; named as in llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp."""

_LARGEST = float(np.finfo(np.float32).max)


def tflite_model(name: str, network: Network, threshold: int | None = None, *, for_tosa: bool = False) -> bytes:
    """Return a TensorFlow Lite model.

    It has one input for each feature, and two outputs: `inlining_decision:0`, int64, and `logits:0`, float32.

    Args:
        name: name of the model.
        network: a network with one output or two.
        threshold: replaces clang's own decision, as `default_threshold()` returns it; None makes it an input.
        for_tosa: whether the model has a counterpart in TOSA: without cumulative sums and logits.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: the network has more outputs.
    """
    check_outputs(network)
    graph = TfliteGraph(name, for_tosa=for_tosa)
    inputs = list(network.features)
    if threshold is not None:
        inputs.remove(INLINING_DEFAULT)
        inputs += [] if COST in inputs else [COST]
    columns = {feature: graph.input(feature) for feature in inputs}
    if threshold is not None:
        bound = graph.constant(np.array([threshold], graph.integer))
        columns[INLINING_DEFAULT] = graph.compare("LESS", columns[COST], bound, graph.integer)
    features = graph.cast(graph.join([columns[feature] for feature in network.features], 0), np.float32)
    logits = forward(graph, network, features)
    graph.output(graph.cast(graph.decision(logits, network.outputs), np.int64), DECISION)
    if not for_tosa:
        graph.output(logits, LOGITS)
    return graph.finish()


def tflite_evictions(name: str, network: Network, *, for_tosa: bool = False) -> bytes:
    """Return a TensorFlow Lite model of a network of `EvictionPolicy`, with the output `index_to_evict:0`, int64.

    The graph does what `eviction.c` does, for all columns at once: clang's own choice by
    `mlgo_gym.llvm.advisors.default_eviction`, the inputs of the network, and the column with the smallest output.
    `for_tosa` is as in `tflite_model()`. Raises `MissingExtraError` if ai-edge-litert is not installed.
    """
    graph = TfliteGraph(name, for_tosa=for_tosa)
    columns = EVICTION_COLUMNS
    inputs = [
        graph.input(feature, (1, columns), np.int64 if feature in EVICTION_INTEGERS else np.float32)
        for feature in COLUMN_FEATURES
    ]
    mask = graph.input("mask", (1, columns))
    progress = graph.input("progress", (1,), np.float32)
    # One row per column.
    rows = graph.join([graph.reshape(graph.cast(value, np.float32), (columns, 1)) for value in inputs], 1)
    legal = graph.reshape(graph.compare("GREATER", graph.cast(mask, np.float32), graph.scalar(0)), (columns, 1))
    own = graph.own_choice(rows, legal)
    features = graph.finite(rows, 0)
    last = graph.last_row(features)
    default = graph.gather(features, own, 0)
    registers = graph.times(legal, graph.opposite(graph.is_last()))
    high = graph.constant(np.full((columns, len(COLUMN_FEATURES)), _LARGEST, np.float32))
    least = graph.smallest_row(graph.choose(registers, features, high))
    least = graph.choose(graph.holds_once(registers, 0), least, last)
    place = graph.reshape(graph.cast(own, np.float32), (1, 1))
    facts = [
        graph.is_last(),
        graph.spread(graph.compare("EQUAL", place, graph.scalar(columns - 1))),
        graph.spread(graph.reshape(graph.finite(progress, 0), (1, 1))),
        graph.spread(graph.reduce("SUM", legal, 0, keep=True)),
        graph.positions(),
        graph.spread(place),
        graph.spread(graph.last_row(legal)),
    ]
    relations = [graph.relation(features, other) for other in (default, last, least)]
    examples = graph.join([features, graph.spread(default), graph.spread(last), *relations, *facts], 1)
    others = graph.times(legal, graph.compare("NOT_EQUAL", graph.positions(), place))
    excluded = graph.constant(np.full((columns, 1), _LARGEST, np.float32))
    outputs = graph.choose(others, forward(graph, network, examples), excluded)
    best = graph.place_of("ARG_MIN", outputs)
    gains = graph.reshape(graph.compare("LESS", graph.gather(outputs, best, 0), graph.scalar(0)), (1,))
    graph.output(graph.cast(graph.choose(gains, best, own, np.int32), np.int64), EVICTION_DECISION)
    return graph.finish()


def output_spec(decision: str = DECISION) -> str:
    """Return the `output_spec.json` of these models: a list of outputs, the first of which decides."""
    spec = {"name": decision, "port": 0, "shape": [1], "type": "int64_t"}
    return json.dumps([{"logging_name": decision, "tensor_spec": spec}], indent=1) + "\n"


def write_tflite_folder(folder: Path, model: bytes, decision: str = DECISION) -> None:
    """Write the folder of a model, or raise an MlgoError."""
    write_export(folder / MODEL, model)
    write_export(folder / OUTPUT_SPEC, output_spec(decision).encode())


def tosa_model(name: str, network: Network, threshold: int | None = None) -> bytes:
    """Return a model of TOSA with one output: `inlining_decision`, or `index_to_evict` for a network of evictions.

    The format is MLIR bytecode, which LLVM's build takes with `-DLLVM_MLGO_MODELS=` and lowers to C++
    (llvm/cmake/modules/MLGOLower.cmake). Each argument has the attribute `tf_saved_model.index_path` with a feature's
    name, by which llvm/Analysis/EmitCModelRunner.h finds it. Text would be shorter-lived: the syntax of TOSA changes.
    Sums have the order of the library that runs the model, and logarithms are within 2e-6, so outputs differ in their
    last bits. `threshold` is as in `tflite_model()`.

    Raises:
        MissingExtraError: ai-edge-litert or tosa-converter-for-tflite is not installed.
        PolicyError: the network does not choose between 0 and 1, and is not of evictions.
    """
    converter = library("tosa_converter_for_tflite", "an export to TOSA", "tosa")
    if decides_evictions(network):
        model = tflite_evictions(name, network, for_tosa=True)
    else:
        model = tflite_model(name, network, threshold, for_tosa=True)
    output = BytesIO()
    with NamedTemporaryFile(suffix=".tflite") as file:
        file.write(model)
        file.flush()
        converter.tflite_flatbuffer_to_tosa_mlir(file.name, output)
    return output.getvalue()
