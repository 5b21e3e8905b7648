"""A network as TOSA in MLIR bytecode: the format that LLVM's build takes with `-DLLVM_MLGO_MODELS=`.

LLVM lowers the model to C++ by EmitC (llvm/cmake/modules/MLGOLower.cmake). Each argument has the attribute
`tf_saved_model.index_path` with a feature's name, by which llvm/Analysis/EmitCModelRunner.h finds it. Text would be
shorter-lived than bytecode: the syntax of TOSA changes between releases.
"""

from __future__ import annotations

from io import BytesIO
from tempfile import NamedTemporaryFile

from mlgo_gym.deploy.exports import DefaultRule
from mlgo_gym.deploy.tflite_export import tflite_evictions, tflite_model
from mlgo_gym.extras import library
from mlgo_gym.policies.eviction import decides_evictions
from mlgo_gym.policies.network import Network


def tosa_model(name: str, network: Network, rule: DefaultRule | None = None) -> bytes:
    """Return a model of TOSA with one output: `inlining_decision`, or `index_to_evict` for a network of evictions.

    Sums have the order of the library that runs the model, and logarithms are within 2e-6, so outputs differ in their
    last bits. `rule` is as in `tflite_model()`.

    Raises:
        MissingExtraError: ai-edge-litert or tosa-converter-for-tflite is not installed.
        PolicyError: the network does not choose between 0 and 1, and is not of evictions.
    """
    converter = library("tosa_converter_for_tflite", "an export to TOSA", "tosa")
    if decides_evictions(network):
        model = tflite_evictions(name, network, for_tosa=True)
    else:
        model = tflite_model(name, network, rule, for_tosa=True)
    output = BytesIO()
    with NamedTemporaryFile(suffix=".tflite") as file:
        file.write(model)
        file.flush()
        converter.tflite_flatbuffer_to_tosa_mlir(file.name, output)
    return output.getvalue()
