"""A network as TOSA in MLIR bytecode, converted from a TensorFlow Lite model."""

from io import BytesIO
from tempfile import NamedTemporaryFile

import numpy as np

from mlgo_gym.deploy.exports import COST
from mlgo_gym.deploy.network_graph import check_outputs, forward
from mlgo_gym.deploy.tflite_graph import TfliteGraph
from mlgo_gym.extras import library
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.network import Network

_DECISION = "inlining_decision"
"""The output, int64, 0 or 1; named as in llvm/lib/Analysis/MLInlineAdvisor.cpp."""


def tosa_model(name: str, network: Network, threshold: int | None = None) -> bytes:
    """Return a model of TOSA with one output, `inlining_decision`.

    The format is MLIR bytecode, which LLVM's build takes with `-DLLVM_MLGO_MODELS=` and lowers to C++
    (llvm/cmake/modules/MLGOLower.cmake). Each argument has the attribute `tf_saved_model.index_path` with a feature's
    name, by which llvm/Analysis/EmitCModelRunner.h finds it. Text would be shorter-lived: the syntax of TOSA changes.
    Sums have the order of the library that runs the model, and logarithms are within 2e-6, so outputs differ in their
    last bits. A threshold replaces clang's own decision, as `default_threshold()` returns it. Raises
    `MissingExtraError`, and `PolicyError` for a network with more than two outputs.
    """
    converter = library("tosa_converter_for_tflite", "an export to TOSA", "tosa")
    output = BytesIO()
    with NamedTemporaryFile(suffix=".tflite") as file:
        file.write(tflite_model(name, network, threshold))
        file.flush()
        converter.tflite_flatbuffer_to_tosa_mlir(file.name, output)
    return output.getvalue()


def tflite_model(name: str, network: Network, threshold: int | None = None) -> bytes:
    """Return the TensorFlow Lite model: one input for each feature, and the output `inlining_decision:0`."""
    check_outputs(network)
    graph = TfliteGraph(name)
    inputs = list(network.features)
    if threshold is not None:
        inputs.remove(INLINING_DEFAULT)
        inputs += [] if COST in inputs else [COST]
    columns = {feature: graph.input(feature) for feature in inputs}
    if threshold is not None:
        is_cheap = graph.compare("LESS", columns[COST], graph.constant(np.array([threshold], np.int32)))
        columns[INLINING_DEFAULT] = graph.cast(is_cheap, np.int32)
    features = graph.cast(graph.join([columns[feature] for feature in network.features]), np.float32)
    logits = forward(graph, network, features)
    no, yes = graph.constant(np.zeros(1, np.float32)), logits
    if network.outputs == 2:
        no, yes = (graph.gather(logits, graph.constant(np.array([index], np.int32))) for index in (0, 1))
    decision = graph.cast(graph.compare("GREATER", yes, no), np.int32)
    graph.output(graph.cast(decision, np.int64), _DECISION)
    return graph.finish()
