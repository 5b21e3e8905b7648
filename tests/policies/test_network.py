"""Networks compute what they should; a saved one is the same, and its file runs nothing."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.policies.network import FORMAT, Network
from mlgo_gym.policies.normalization import Normalization

NAMES = ("a", "b", "c")


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1e4, (20, 3)).astype(np.float32)


def network(rows: np.ndarray, activation: str = "tanh", *, normal: bool = True) -> Network:
    generator = np.random.default_rng(1)
    shapes = [(3, 5), (5, 4), (4, 2)]
    return Network(
        NAMES,
        tuple(generator.normal(size=shape).astype(np.float32) for shape in shapes),
        tuple(generator.normal(size=shape[1]).astype(np.float32) for shape in shapes),
        activation,
        Normalization.fit(rows, NAMES) if normal else None,
    )


def test_it_computes_layers_and_activations(rows: np.ndarray) -> None:
    one = network(rows, "relu")
    assert one.normalization is not None
    expected = one.normalization(rows).astype(np.float64)
    for weight, bias in zip(one.weights[:2], one.biases[:2], strict=True):
        expected = np.maximum(expected @ weight + bias, 0)
    expected = expected @ one.weights[2] + one.biases[2]
    assert np.allclose(one(rows), expected, rtol=1e-4, atol=1e-4)
    assert one.outputs == 2


def test_one_observation_gives_the_same_as_in_a_batch(rows: np.ndarray) -> None:
    one = network(rows)
    assert np.array_equal([one(row) for row in rows], one(rows))


def test_weights_and_input_are_left_as_they_are(rows: np.ndarray) -> None:
    one = network(rows, normal=False)
    before = rows.copy()
    first = one(rows)
    assert np.array_equal(rows, before)
    assert np.array_equal(one(rows), first)


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "leaky_relu"])
@pytest.mark.parametrize("normal", [True, False])
def test_a_saved_network_gives_the_same_bits(
    rows: np.ndarray,
    activation: str,
    normal: bool,
    tmp_path: Path,
) -> None:
    one = network(rows, activation, normal=normal)
    one.save(tmp_path / "n.safetensors")
    loaded = Network.load(tmp_path / "n.safetensors")
    assert (loaded.features, loaded.activation) == (NAMES, activation)
    assert loaded(rows).tobytes() == one(rows).tobytes()


class _Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (sys.exit, ("a file has run code",))


def test_files_that_are_no_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    with pytest.raises(PolicyError, match="expected a safetensors file"):
        Network.load(path)
    path.write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(PolicyError, match="expected a safetensors file"):
        Network.load(path)
    save_file({"0.weight": np.zeros((2, 3), np.float32)}, path)
    with pytest.raises(PolicyError, match="got None"):
        Network.load(path)
    save_file({"0.weight": np.zeros((2, 3), np.float32)}, path, {"format": FORMAT, "features": "["})
    with pytest.raises(PolicyError, match="expected metadata of a network"):
        Network.load(path)


@pytest.mark.parametrize(
    ("tensors", "activation", "message"),
    [
        ({"0.weight": (2, 4), "0.bias": (2,)}, "relu", "layers for 3 features"),
        ({"0.weight": (2, 3), "0.bias": (3,)}, "relu", "layers for 3 features"),
        ({"0.weight": (2, 3), "x": (2,)}, "relu", "expected the tensors 0.bias"),
        ({}, "relu", "layers for 3 features"),
        ({"0.weight": (2, 3), "0.bias": (2,)}, "magic", "expected an activation of"),
    ],
)
def test_layers_that_do_not_fit_are_refused(
    tensors: dict[str, tuple[int, ...]], activation: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.safetensors"
    metadata = {"format": FORMAT, "features": json.dumps(NAMES), "activation": activation}
    save_file({name: np.zeros(shape, np.float32) for name, shape in tensors.items()}, path, metadata)
    with pytest.raises(PolicyError, match=message):
        Network.load(path)


@pytest.mark.parametrize("name", ["", "a b", 'a"', "a\n", "a\\", "a[b]", "é", "3a", "a" * 101])
def test_a_name_that_could_inject_code_into_an_export_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    metadata = {"format": FORMAT, "features": json.dumps([name]), "activation": "relu"}
    save_file({"0.weight": np.zeros((1, 1), np.float32), "0.bias": np.zeros(1, np.float32)}, path, metadata)
    with pytest.raises(PolicyError, match="expected the name of a feature"):
        Network.load(path)


def test_a_normalization_of_other_features_is_refused(rows: np.ndarray) -> None:
    one = network(rows)
    with pytest.raises(MlgoError, match="expected a normalization of the features"):
        Network(("a", "c", "b"), one.weights, one.biases, "tanh", one.normalization)


def test_the_library_is_not_needed_and_reads_what_is_written(
    rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, path = network(rows), tmp_path / "n.safetensors"
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    one.save(path)
    before = path.read_bytes()
    one.save(path)
    assert path.read_bytes() == before
    monkeypatch.undo()
    tensors = load_file(path)
    assert np.array_equal(tensors["0.weight"].T, one.weights[0])
    assert len(tensors) == 6
    assert Network.load(path).features == NAMES
