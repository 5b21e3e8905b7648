"""Networks: their outputs, their files, and their decisions as the policies `mlp:FILE`."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.eviction import COLUMN_FEATURES, INPUTS, column_inputs
from mlgo_gym.policies.loading import needs_callee_features, policy_identity, with_callee_features
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import FORMAT, Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.policies.observation_samples import record_observations
from tests.policies.episodes import eviction_network, play, random_network, shifted

NAMES = ("a", "b", "c")
ROWS = np.random.default_rng(0).normal(0, 1e4, (20, 3)).astype(np.float32)


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "leaky_relu"])
@pytest.mark.parametrize("normal", [True, False])
def test_a_saved_network_gives_the_same_bits_for_rows_and_batches(
    activation: str, normal: bool, tmp_path: Path
) -> None:
    normalization = Normalization.fit(ROWS, NAMES) if normal else None
    network = random_network(NAMES, 5, 4, 2, activation=activation, normalization=normalization)
    rows = ROWS.copy()
    outputs = network(rows)
    assert np.array_equal([network(row) for row in rows], outputs)
    assert np.array_equal(rows, ROWS), "the input is unchanged"
    path = tmp_path / "n.safetensors"
    network.save(path)
    loaded = Network.load(path)
    assert (loaded.features, loaded.activation, loaded.outputs) == (NAMES, activation, 2)
    assert loaded(rows).tobytes() == outputs.tobytes()
    tensors = load_file(path)  # of the library, which need not be installed
    assert np.array_equal(tensors["0.weight"].T, network.weights[0])
    assert len(tensors) == 6


def test_it_computes_layers_and_activations() -> None:
    network = random_network(NAMES, 5, 4, 2, normalization=Normalization.fit(ROWS, NAMES))
    assert network.normalization is not None
    expected = network.normalization(ROWS).astype(np.float64)
    for weight, bias in zip(network.weights[:2], network.biases[:2], strict=True):
        expected = np.maximum(expected @ weight + bias, 0)
    assert np.allclose(network(ROWS), expected @ network.weights[2] + network.biases[2], rtol=1e-4, atol=1e-4)
    with pytest.raises(MlgoError, match="expected a normalization of the features"):
        replace(network, features=("a", "c", "b"))


class _Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (sys.exit, ("a file has run code",))


def test_files_that_are_no_network_are_refused_and_run_nothing(tmp_path: Path) -> None:
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


WEIGHT, BIAS = {"0.weight": (2, 3)}, {"0.bias": (2,)}


@pytest.mark.parametrize(
    ("tensors", "activation", "features", "message"),
    [
        ({"0.weight": (2, 4), **BIAS}, "relu", NAMES, "layers for 3 features"),
        ({**WEIGHT, "0.bias": (3,)}, "relu", NAMES, "layers for 3 features"),
        ({**WEIGHT, "x": (2,)}, "relu", NAMES, "expected the tensors 0.bias"),
        ({}, "relu", NAMES, "layers for 3 features"),
        ({**WEIGHT, **BIAS}, "magic", NAMES, "expected an activation of"),
        # Names that would inject code into an export.
        *(
            ({**WEIGHT, **BIAS}, "relu", ("a", "b", name), "expected the name of a feature")
            for name in ("", "a b", 'a"', "a\n", "a\\", "a[b]", "é", "3a", "a" * 101)
        ),
    ],
)
def test_layers_and_names_that_do_not_fit_are_refused(
    tensors: dict[str, tuple[int, ...]], activation: str, features: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.safetensors"
    metadata = {"format": FORMAT, "features": json.dumps(features), "activation": activation}
    save_file({name: np.zeros(shape, np.float32) for name, shape in tensors.items()}, path, metadata)
    with pytest.raises(PolicyError, match=message):
        Network.load(path)


def threshold_network(threshold: float) -> Network:
    """Inline where cost_estimate is below a threshold, as the policy `threshold` does."""
    weight = np.array([[-1.0], [0.0]], np.float32)
    return Network(("cost_estimate", "callee_users"), (weight,), (np.array([threshold], np.float32),))


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_it_decides_by_the_features_it_names(
    inline: CompilerEnv, corpus: Path, observation: str, tmp_path: Path
) -> None:
    costs = record_observations(inline, observations=9)[:, inline.feature_names.index("cost_estimate")]
    middle = float(np.median(costs)) + 0.5
    policy = f"mlp:{tmp_path}/n.safetensors"
    with pytest.raises(PolicyError, match="there is no"):
        load_policy(policy, inline)
    threshold_network(7).save(tmp_path / "n.safetensors")
    identity = policy_identity(policy)
    threshold_network(middle).save(tmp_path / "n.safetensors")
    assert policy_identity(policy) != identity
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(policy, env), "calls")
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}


def test_masked_actions_are_never_taken_and_priorities_stay_in_bounds(
    evict: CompilerEnv, priority: CompilerEnv
) -> None:
    network = random_network(evict.feature_names, 33)
    observation, info = evict.reset(options={"module": "c/bigint"})
    policy = MlpPolicy(evict, network)
    logits = network(observation["observations"])
    expected = max(np.flatnonzero(info["action_mask"]), key=lambda column: logits[column])
    assert policy.act(observation, info) == expected
    only = np.zeros(33, np.int8)
    only[int(logits.argmin())] = 1
    assert policy.act(observation, {"action_mask": only}) == int(logits.argmin())
    actions, _ = play(priority, MlpPolicy(priority, random_network(priority.feature_names, 1)), "calls")
    assert len({action.item() for action in actions}) > 1


@pytest.mark.slow
def test_a_network_of_joint_decisions_decides_on_observations_of_two_forms(varied: str) -> None:
    envs = [make_environment("mlgo/Joint-v0", {"corpus": varied, "observation": form}) for form in ("vector", "flat")]
    network = random_network(envs[0].feature_names[::-1], 42)
    of_vectors, of_parts = (play(env, MlpPolicy(env, network), "mixed")[0] for env in envs)
    assert of_vectors == of_parts
    assert len(set(of_parts)) > 4


def test_networks_that_do_not_fit_the_environment_are_refused(inline: CompilerEnv, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="'mlp' needs 2 features that are missing: magic, more"):
        MlpPolicy(inline, random_network(("cost_estimate", "magic", "more"), 2))
    with pytest.raises(PolicyError, match="actions for its 3 outputs"):
        MlpPolicy(inline, random_network(inline.feature_names, 3))
    random_network(("inlining_default", "callee_kept"), 1).save(tmp_path / "a.safetensors")
    policy = f"mlp:{tmp_path}/a.safetensors"
    assert needs_callee_features(policy)
    assert with_callee_features({"limit": 1}, ["default", policy]) == {"limit": 1, "callee_features": True}
    assert with_callee_features({"limit": 1}, ["default", "inline-oz-fast"]) == {"limit": 1}
    with pytest.raises(PolicyError, match="which this environment does not compute; make it with callee_features=True"):
        load_policy(policy, inline)


@pytest.mark.libraries
@pytest.mark.parametrize(("activation", "function"), [("tanh", "Tanh"), ("relu", "ReLU"), ("elu", "ELU")])
def test_decisions_are_those_of_the_torch_original(activation: str, function: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
    rows, names = record_observations(env, observations=300), env.feature_names
    normalization = Normalization.fit(rows, names)
    torch.manual_seed(0)
    between = getattr(torch.nn, function)
    layers = (torch.nn.Linear(len(names), 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 2))
    original = torch.nn.Sequential(layers[0], between(), layers[1], between(), layers[2])
    with torch.no_grad():
        logits = original(torch.from_numpy(normalization(rows))).numpy()
    state = {name: tensor.numpy() for name, tensor in original.state_dict().items()}
    network = Network.from_state(state, ["0", "2", "4"], names, activation=activation, normalization=normalization)
    decisions = [int(network(row).argmax()) for row in rows]
    assert set(decisions) == {0, 1}
    assert decisions == logits.argmax(1).tolist()


def test_a_network_of_evictions_takes_the_column_with_the_smallest_output(evict: CompilerEnv, tmp_path: Path) -> None:
    network = eviction_network()
    policy = f"mlp:{tmp_path}/network.safetensors"
    default = play(evict, load_policy("default", evict), "c/bigint")[0]
    actions = []
    for margin in (1e9, -1e9):
        shifted(network, margin).save(tmp_path / "network.safetensors")
        actions.append(play(evict, load_policy(policy, evict), "c/bigint")[0])
    assert actions[0] == default, "a large margin leaves clang's own choices"
    assert actions[1][0] != default[0]


def test_the_inputs_of_a_column_are_its_features_and_those_of_clangs_choice() -> None:
    features = np.random.default_rng(0).random((33, len(COLUMN_FEATURES)), np.float32)
    rows = column_inputs(features, np.array([1, 4, 32]), 4, 0.5)
    assert rows.shape == (2, len(INPUTS))
    assert np.array_equal(rows[0, : len(COLUMN_FEATURES)], features[1])
    assert np.array_equal(rows[1, len(COLUMN_FEATURES) : 2 * len(COLUMN_FEATURES)], features[4])
    facts = dict(zip(INPUTS, rows[1], strict=True))
    assert (facts["is_nothing"], facts["column"], facts["default_column"], facts["legal"]) == (1, 32, 4, 3)
    row = column_inputs(np.ones_like(features), np.array([0, 32]), 0, 0.0)[0]
    relations = [value for name, value in zip(INPUTS, row, strict=True) if "_to_" in name]
    assert relations
    assert not any(relations)
