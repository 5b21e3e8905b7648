"""ONNX and TensorFlow Lite: the exported graphs compute what the network computes, and are read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mlgo_gym.deploy.onnx_model import onnx_model
from mlgo_gym.deploy.tflite_export import LOGARITHMS, tflite_model
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from tests.cli.command import run
from tests.deploy.conftest import KINDS, Observations, labelled, make_network
from tests.policies.conftest import inline as inline

pytestmark = pytest.mark.libraries

Outputs = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def run_onnx(model: bytes, names: tuple[str, ...], rows: Observations) -> Outputs:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    decisions, logits = session.run(None, {name: rows[:, [place]] for place, name in enumerate(names)})
    return decisions[:, 0], logits


def run_tflite(model: bytes, names: tuple[str, ...], rows: Observations) -> Outputs:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    running = interpreter.Interpreter(model_content=model, num_threads=1)
    running.allocate_tensors()
    inputs = {detail["name"]: detail["index"] for detail in running.get_input_details()}
    places = [(place, inputs[f"action_{name}:0"]) for place, name in enumerate(names) if f"action_{name}:0" in inputs]
    assert len(places) == len(inputs)
    outputs = [detail["index"] for detail in running.get_output_details()]
    decisions, logits = [], []
    for row in rows:
        for place, index in places:
            running.set_tensor(index, row[[place]])
        running.invoke()
        decisions.append(running.get_tensor(outputs[0])[0])
        logits.append(running.get_tensor(outputs[1]))
    return np.array(decisions), np.array(logits)


def wanted(network: Network, rows: Observations) -> Outputs:
    logits = network(rows.astype(np.float32))
    yes = logits[:, 0] > 0 if network.outputs == 1 else logits[:, 1] > logits[:, 0]
    return yes.astype(np.int64), logits


def run_graph(kind: str, network: Network, rows: Observations) -> Outputs:
    pytest.importorskip("onnx" if kind == "onnx" else "ai_edge_litert", reason=f"the extra {kind} is not installed")
    if kind == "onnx":
        return run_onnx(onnx_model("a network", network), network.features, rows)
    return run_tflite(tflite_model("a network", network), network.features, rows)


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_a_graph_computes_the_same_to_the_last_bit(kind: str, observations: Observations) -> None:
    for activation, method, outputs in KINDS:
        network = make_network(observations, activation=activation, method=method, outputs=outputs)
        rows = observations[:1000]
        decisions, logits = run_graph(kind, network, rows)
        expected, exact = wanted(network, rows)
        assert decisions.tolist() == expected.tolist()
        # In TensorFlow Lite, larger numbers and tanh use the library's own functions.
        small = (np.abs(rows) < LOGARITHMS).all(axis=1) | (kind == "onnx")
        assert small.sum() > 20
        if kind == "onnx" or activation == "relu":
            assert np.array_equal(logits[small], exact[small])
        assert np.allclose(logits, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_an_exported_bundled_policy_decides_as_before(kind: str, inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime" if kind == "onnx" else "ai_edge_litert")
    output, policy = tmp_path / "model", "inline-oz-fast"
    more = ["--keep-default"] if kind == "tflite" else []
    exported = run("export", kind, "--policy", policy, "--output", output, *more)
    assert exported.stdout.startswith(f"{output}: {policy}, ")
    rows = labelled("Oz", inline.feature_names, 500).astype(np.float32)
    before, after = load_policy(policy, inline), load_policy(f"{kind}:{output}", inline)
    expected = [before.act(row, {}) for row in rows]
    assert [after.act(row, {}) for row in rows] == expected
    assert 0 < sum(expected) < len(rows)


def test_a_network_with_more_outputs_or_without_a_level_is_refused(
    observations: Observations, network_file: Path, tmp_path: Path
) -> None:
    make_network(observations, outputs=3).save(tmp_path / "three")
    output = ("--output", tmp_path / "model")
    for words in ("onnx", "tflite --keep-default"):
        with pytest.raises(PolicyError, match="got 3"):
            run("export", *words.split(), "--policy", f"mlp:{tmp_path}/three", *output)
    with pytest.raises(PolicyError, match="with --level"):
        run("export", "tflite", "--policy", f"mlp:{network_file}", *output)
    assert not (tmp_path / "model").exists()
    pytest.importorskip("ai_edge_litert")
    exported = run("export", "tflite", "--policy", f"mlp:{network_file}", *output, "--level", "Oz")
    assert "inlining_default is replaced by cost_estimate < 5" in exported.stdout
