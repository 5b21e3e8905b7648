"""A network as the folder of a TensorFlow Lite model: `-ml-inliner-model-under-training` of LLVM.

The rules are in llvm/lib/Analysis/TFLiteUtils.cpp and DevelopmentModeInlineAdvisor.cpp: inputs `action_FEATURE:0`,
int64 of one element, and an output that `output_spec.json` names. `tflite:FOLDER` reads the folder back.
"""

import json
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from mlgo_gym.deploy.exports import COST, write_export
from mlgo_gym.deploy.network_graph import DECISION, LOGITS, check_outputs, forward
from mlgo_gym.deploy.tflite_graph import TfliteGraph
from mlgo_gym.extras import library
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.foreign_model import MODEL, OUTPUT_SPEC
from mlgo_gym.policies.network import Network


def tflite_model(name: str, network: Network, threshold: int | None = None, *, for_tosa: bool = False) -> bytes:
    """Return a TensorFlow Lite model.

    It has one input for each feature, and two outputs: `inlining_decision:0`, int64, and `logits:0`, float32. A
    threshold replaces clang's own decision, as `default_threshold()` returns it; None makes it an input. A model for
    TOSA has no cumulative sums and no logits. Raises as `onnx_model()`.
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


def output_spec() -> str:
    """Return the `output_spec.json` of these models: a list of outputs, the first of which decides."""
    spec = {"name": DECISION, "port": 0, "shape": [1], "type": "int64_t"}
    return json.dumps([{"logging_name": DECISION, "tensor_spec": spec}], indent=1) + "\n"


def write_tflite_folder(folder: Path, model: bytes) -> None:
    """Write the folder of a model, or raise an MlgoError."""
    write_export(folder / MODEL, model)
    write_export(folder / OUTPUT_SPEC, output_spec().encode())


def tosa_model(name: str, network: Network, threshold: int | None = None) -> bytes:
    """Return a model of TOSA with one output, `inlining_decision`.

    The format is MLIR bytecode, which LLVM's build takes with `-DLLVM_MLGO_MODELS=` and lowers to C++
    (llvm/cmake/modules/MLGOLower.cmake). Each argument has the attribute `tf_saved_model.index_path` with a feature's
    name, by which llvm/Analysis/EmitCModelRunner.h finds it. Text would be shorter-lived: the syntax of TOSA changes.
    Sums have the order of the library that runs the model, and logarithms are within 2e-6, so outputs differ in their
    last bits. Threshold and errors are those of `tflite_model()`.
    """
    converter = library("tosa_converter_for_tflite", "an export to TOSA", "tosa")
    model = tflite_model(name, network, threshold, for_tosa=True)
    output = BytesIO()
    with NamedTemporaryFile(suffix=".tflite") as file:
        file.write(model)
        file.flush()
        converter.tflite_flatbuffer_to_tosa_mlir(file.name, output)
    return output.getvalue()
