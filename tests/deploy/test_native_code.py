"""Networks as graphs and as native code."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym import CompilerEnv, Network, load_policy
from mlgo_gym.deploy.c_code import build_native_library, main
from mlgo_gym.deploy.network_graph import onnx_model
from mlgo_gym.deploy.tflite_export import tflite_model
from mlgo_gym.deploy.tflite_graph import LOGARITHMS
from mlgo_gym.errors import PolicyError, ToolchainError
from mlgo_gym.policies.foreign_model import load_model
from tests.cli.command import run
from tests.deploy.conftest import KINDS, NAMES, Observations, labelled, make_network
from tests.policies.conftest import inline as inline

CLANG = compiler_command("bundled", "gcc")


def native_decisions(library: Path, observations: Observations) -> list[int]:
    native = ctypes.CDLL(str(library))
    native.mlgo_decide.restype = ctypes.c_int64
    native.mlgo_decide.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
    offsets = (ctypes.c_int32 * len(NAMES))(*(8 * number for number in range(len(NAMES))))
    data, size = observations.tobytes(), observations[0].nbytes
    return [native.mlgo_decide(data, size * number, offsets) for number in range(len(observations))]


@pytest.mark.parametrize(("activation", "normalizes", "outputs"), KINDS)
def test_decisions_are_equal(
    activation: str, normalizes: bool, outputs: int, observations: Observations, tmp_path: Path
) -> None:
    network = make_network(observations, activation=activation, normalizes=normalizes, outputs=outputs)
    network.save(tmp_path / "network.safetensors")
    library = build_native_library(tmp_path / "network.safetensors", CLANG)
    values = network(observations.astype(np.float32))
    expected = values[:, 0] > 0 if outputs == 1 else values.argmax(1)
    assert 0.1 < expected.mean() < 0.9
    assert native_decisions(library, observations) == expected.astype(int).tolist()


def test_equal_outputs_are_decided_as_0(observations: Observations, tmp_path: Path) -> None:
    row = observations[49:50]
    for outputs in (1, 2):
        network = make_network(observations, outputs=outputs)
        # The last bias is added last, so subtracting the output without it gives 0.
        bare = replace(network, biases=(*network.biases[:-1], np.zeros(outputs, np.float32)))
        tied = replace(network, biases=(*network.biases[:-1], -bare(row[0].astype(np.float32))))
        tied.save(tmp_path / f"{outputs}.safetensors")
        library = build_native_library(tmp_path / f"{outputs}.safetensors", CLANG)
        assert native_decisions(library, row) == [0]


def test_inputs_of_each_type_are_read(observations: Observations, tmp_path: Path) -> None:
    network = make_network(observations, outputs=2)
    network.save(tmp_path / "network.safetensors")
    library = build_native_library(tmp_path / "network.safetensors", CLANG)
    native = ctypes.CDLL(str(library))
    assert ctypes.c_char_p.in_dll(native, "mlgo_inputs").value == " ".join(NAMES).encode()
    # Half of the features as floats, among them some that are not finite.
    floats = observations.astype(np.float32)
    floats[::7, 1], floats[1::7, 1], floats[2::7, 1] = np.nan, np.inf, -np.inf
    data = observations.tobytes() + floats.tobytes()
    as_floats = range(1, len(NAMES), 2)
    seen = observations.astype(np.float32)
    bound = 2.0**53
    seen[:, 1] = np.nan_to_num(floats[:, 1], nan=0, posinf=bound, neginf=-bound)
    decisions = []
    width = 8 * len(NAMES)
    for row in range(len(observations)):
        start = row * width
        behind = len(observations) * width - start + row * 4 * len(NAMES)
        offsets = [~(behind + 4 * i) if i in as_floats else 8 * i for i in range(len(NAMES))]
        table = (ctypes.c_int32 * len(NAMES))(*offsets)
        decisions.append(int(native.mlgo_decide(data, ctypes.c_int64(start), table)))
    assert decisions == network(seen).argmax(1).tolist()


def test_a_failing_compiler_is_quoted(network_file: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiler = [*CLANG, "--no-such-option"]
    with pytest.raises(ToolchainError, match="no-such-option"):
        build_native_library(network_file, compiler)
    assert main([str(network_file), *compiler]) == 1
    assert "no-such-option" in capsys.readouterr().err
    assert not list(own_cache.rglob("*.so"))


pytestmark = pytest.mark.libraries

Outputs = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def wanted(network: Network, rows: Observations) -> Outputs:
    logits = network(rows.astype(np.float32))
    yes = logits[:, 0] > 0 if network.outputs == 1 else logits[:, 1] > logits[:, 0]
    return yes.astype(np.int64), logits


def run_graph(kind: str, network: Network, rows: Observations, file: Path) -> Outputs:
    for library in ("onnx", "onnxruntime") if kind == "onnx" else ("ai_edge_litert",):
        pytest.importorskip(library, reason=f"the extra {kind} is not installed")
    file.write_bytes({"onnx": onnx_model, "tflite": tflite_model}[kind]("a network", network))
    model = load_model(kind, file)
    names = [tensor.name.removeprefix("action_").removesuffix(":0") for tensor in model.inputs]
    columns = [(tensor.shape, network.features.index(name)) for tensor, name in zip(model.inputs, names, strict=True)]
    inputs = [[np.full(shape, row[column]) for shape, column in columns] for row in rows]
    decisions, logits = ([model.run(output, arrays) for arrays in inputs] for output in (0, 1))
    return np.array(decisions)[:, 0], np.array(logits)


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_a_graph_computes_the_same_to_the_last_bit(kind: str, observations: Observations, tmp_path: Path) -> None:
    for activation, normalizes, outputs in KINDS:
        network = make_network(observations, activation=activation, normalizes=normalizes, outputs=outputs)
        rows = observations[:1000]
        decisions, logits = run_graph(kind, network, rows, tmp_path / "model")
        expected, exact = wanted(network, rows)
        assert decisions.tolist() == expected.tolist()
        # In TensorFlow Lite, larger numbers and tanh use the library's own functions.
        small = (np.abs(rows) < LOGARITHMS).all(axis=1) | (kind == "onnx")
        assert small.sum() > 20
        if kind == "onnx" or activation == "relu":
            assert np.array_equal(logits[small], exact[small])
        assert np.allclose(logits, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_an_exported_network_decides_as_before(kind: str, inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime" if kind == "onnx" else "ai_edge_litert")
    output, policy = tmp_path / "model", f"mlp:{tmp_path}/network.safetensors"
    make_network(labelled("Oz", NAMES)).save(tmp_path / "network.safetensors")
    more = ["--keep-default"] if kind == "tflite" else []
    exported = run("export", kind, "--policy", policy, "--output", output, *more)
    assert exported.stdout.startswith(f"{output}: {policy}, ")
    rows = labelled("Oz", inline.feature_names, 500).astype(np.float32)
    before, after = load_policy(policy, inline), load_policy(f"{kind}:{output}", inline)
    expected = [before.act(row, {}) for row in rows]
    assert [after.act(row, {}) for row in rows] == expected
    assert 0 < sum(expected) < len(rows)


def test_three_outputs_and_no_level_are_refused(observations: Observations, network_file: Path, tmp_path: Path) -> None:
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
