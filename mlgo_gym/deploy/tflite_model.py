"""A network as a TensorFlow Lite model, in the folder that LLVM's `-ml-inliner-model-under-training` takes.

What LLVM wants of it is in llvm/lib/Analysis/TFLiteUtils.cpp and DevelopmentModeInlineAdvisor.cpp: inputs
`action_FEATURE:0`, int64 of one element, and an output that `output_spec.json` names. `tflite:FOLDER` reads it back.
"""

from __future__ import annotations

import json
from pathlib import Path

from mlgo_gym.deploy.clangs_choice import ClangsChoice
from mlgo_gym.deploy.exported_file import write_export
from mlgo_gym.deploy.network_graph import DECISION, LOGITS, check_decides, forward
from mlgo_gym.deploy.tflite_graph import TfliteGraph
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.tflite import MODEL, OUTPUT_SPEC

_PREFIX = "action_"
"""What LLVM puts before each feature, unless `-ml-inliner-trained-model-feed-prefix` says something else."""


def tflite_model(name: str, network: Network, choice: ClangsChoice | None = None) -> bytes:
    """Return a TensorFlow Lite model.

    It has one input for each feature, and two outputs: `inlining_decision:0`, int64, and `logits:0`, float32.

    Args:
        name: what it is called.
        network: a network that says no or yes.
        choice: how clang's own decision is known where it is no input; None: it is an input.

    Raises:
        MissingExtraError: ai-edge-litert is not installed.
        PolicyError: the network decides something else.
    """
    check_decides(name, network)
    graph = TfliteGraph(name)
    columns: dict[str, int] = {}
    for feature in network.features:
        if choice is None or feature != choice.feature:
            columns[feature] = graph.input(f"{_PREFIX}{feature}:0")
    if choice is not None and choice.feature in network.features:
        if choice.of not in columns:
            columns[choice.of] = graph.input(f"{_PREFIX}{choice.of}:0")
        columns[choice.feature] = graph.below(columns[choice.of], choice.below)
    features = graph.as_float([columns[feature] for feature in network.features])
    logits = forward(graph, network, features)
    graph.output(logits, f"{LOGITS}:0")
    graph.output(graph.decision(logits, network.outputs), f"{DECISION}:0", first=True)
    return graph.finish()


def output_spec() -> str:
    """Return the `output_spec.json` of these models: a list of outputs, the first of which decides."""
    spec = {"name": DECISION, "port": 0, "shape": [1], "type": "int64_t"}
    return json.dumps([{"logging_name": DECISION, "tensor_spec": spec}], indent=1) + "\n"


def write_tflite_folder(folder: Path, model: bytes) -> None:
    """Write the folder of a model.

    Raises:
        MlgoError: it cannot be written there.
    """
    write_export(folder / MODEL, model)
    write_export(folder / OUTPUT_SPEC, output_spec().encode())
