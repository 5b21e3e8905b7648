"""Networks as native code."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym.deploy.c_code import build_native_library, main
from mlgo_gym.errors import ToolchainError
from tests.deploy.conftest import KINDS, NAMES, Observations, make_network

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
