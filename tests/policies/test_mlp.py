"""Networks and normalizations: their outputs, their files, and their decisions as the policies `mlp:FILE`."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from mlgo_gym import CompilerEnv, load_policy
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import needs_callee_features, policy_identity, with_callee_features
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import FORMAT, Network, Normalization
from tests.policies.episodes import Trap, play, random_network

NAMES = ("small", "huge", "constant")
ROWS = np.array(
    [[0, 1, 7], [1, -10, 7], [2, 1e3, 7], [3, -1e6, 7], [4, 1e9, 7], [4, 2.0**53, 7]], np.float32
)  # fmt: skip


def test_a_normalization_computes_its_formula_in_rows_batches_selections_and_json() -> None:
    fitted = Normalization.fit(ROWS, NAMES)
    others = ROWS + np.array([0, 0, 1], np.float32)
    normal = fitted(values := others.copy())
    assert np.array_equal(values, others), "the input is unchanged"
    seen, expected = (np.sign(rows) * np.log1p(np.abs(rows)) for rows in (ROWS.astype(float), others.astype(float)))
    expected = (expected - seen.mean(0)) / np.where(seen.std(0), seen.std(0), 1)
    assert np.allclose(normal, expected, atol=1e-5)
    assert np.array_equal([fitted(row) for row in others], normal)
    assert np.array_equal(fitted(others.reshape(2, 3, 3)), normal.reshape(2, 3, 3))
    selected = fitted.select(["huge", "small"])
    assert selected.names == ("huge", "small")
    assert np.array_equal(selected(others[:, [1, 0]]), normal[:, [1, 0]])
    loaded = Normalization.from_json(json.loads(json.dumps(fitted.to_json())))
    assert (loaded.names, loaded(others).tobytes()) == (NAMES, normal.tobytes())
    far = np.array([1e30, -1e30, 7], np.float32)
    assert Normalization.fit(ROWS[:3], NAMES)(far).tolist() == [5, -5, 0], "outliers are clipped"


def test_features_are_found_by_name_and_unusable_data_are_refused() -> None:
    normalization = Normalization.fit(ROWS, NAMES)
    assert normalization.columns(["constant", "new", "huge", "small"]).tolist() == [3, 2, 0]
    with pytest.raises(MlgoError, match="needs 2 features that are missing: huge, constant; got small, new"):
        normalization.columns(["small", "new"])
    for shape in ((4, 2), (3,), (0, 3)):
        with pytest.raises(MlgoError, match=r"shape \(decisions, 3\)"):
            Normalization.fit(np.zeros(shape), NAMES)
    damages: list[tuple[dict[str, Any], str]] = [
        ({"format": 99}, "format 99"),
        ({"names": ["one"]}, "3 features|1 features"),
        *(({"center": [0, 0, wrong]}, "expected the data of a normalization") for wrong in ("x", 10**400)),
        ({"names": None}, "expected the data of a normalization"),
        ({"scale": [1, 1, 0]}, "no scale of 0"),
        ({"method": "magic"}, "method 'magic'"),
    ]
    for damage, message in damages:
        with pytest.raises(MlgoError, match=message):
            Normalization.from_json(normalization.to_json() | damage)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda value: np.maximum(value, 0),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_network_computes_its_layers_and_is_saved_exactly(activation: str, tmp_path: Path) -> None:
    normalization = Normalization.fit(ROWS, NAMES)
    network = random_network(NAMES, 5, 4, 2, activation=activation, normalization=normalization)
    rows = ROWS.copy()
    outputs = network(rows)
    assert np.array_equal([network(row) for row in rows], outputs)
    assert np.array_equal(rows, ROWS), "the input is unchanged"
    expected = normalization(rows).astype(np.float64)
    for weight, bias in zip(network.weights[:2], network.biases[:2], strict=True):
        expected = ACTIVATIONS[activation](expected @ weight + bias)
    assert np.allclose(outputs, expected @ network.weights[2] + network.biases[2], rtol=1e-4, atol=1e-4)
    network.save(tmp_path / "n.safetensors")
    loaded = Network.load(tmp_path / "n.safetensors")
    assert (loaded.features, loaded.activation, loaded.outputs) == (NAMES, activation, 2)
    assert loaded(rows).tobytes() == outputs.tobytes()
    tensors = load_file(tmp_path / "n.safetensors")  # of the library, which need not be installed
    settings: Any = {"activation": activation, "normalization": normalization}
    assert Network.from_state(tensors, ["0", "1", "2"], NAMES, **settings)(rows).tobytes() == outputs.tobytes()
    assert len(tensors) == 6
    with pytest.raises(MlgoError, match="expected a normalization of the features"):
        replace(network, features=("huge", "small", "constant"))


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_sums_are_taken_in_the_order_of_the_inputs_in_rows_and_in_batches(outputs: int) -> None:
    network = random_network(names := tuple(f"f{number}" for number in range(300)), outputs)
    rows = np.random.default_rng(outputs).normal(size=(70, len(names))).astype(np.float32)
    sums = np.zeros((70, outputs), np.float32)
    for column, weights in zip(rows.T, network.weights[0], strict=True):
        sums += column[:, np.newaxis] * weights
    expected = (sums + network.biases[0]).tobytes()
    assert network(rows).tobytes() == np.stack([network(row) for row in rows]).tobytes() == expected


def saved(tensors: dict[str, tuple[int, ...]], features: tuple[str, ...] = NAMES, activation: str = "relu") -> bytes:
    metadata = {"format": FORMAT, "features": json.dumps(features), "activation": activation}
    return save({name: np.zeros(shape, np.float32) for name, shape in tensors.items()}, metadata)


def test_files_that_are_no_network_are_refused_and_run_nothing(tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    with pytest.raises(PolicyError, match="expected a safetensors file"):
        Network.load(path)
    zeros = {"0.weight": np.zeros((2, 3), np.float32)}
    layer = {"0.weight": (2, 3), "0.bias": (2,)}
    noise = b'{"\xff' + bytes(500_000)
    names = ("", 'a"', "a" * 101)  # some would inject code into an export
    for content, message in (
        (pickle.dumps(Trap()), "expected a safetensors file"),
        (len(noise).to_bytes(8, "little") + noise, "expected a safetensors file, got .*UnicodeDecodeError"),
        (b"PK\3\4" + noise, r"a zip file; for a model of Stable-Baselines3 save .*read_sb3\(model, like\)"),
        (save(zeros), "got None"),
        (save(zeros, {"format": FORMAT}), "expected metadata of a network"),
        *((save(zeros, {"format": FORMAT, "features": "[" * n}), "expected metadata of a network") for n in (1, 10**5)),
        (saved(layer | {"0.weight": (2, 4)}), "layers for 3 features"),
        (saved(layer | {"0.bias": (3,)}), "layers for 3 features"),
        (saved({}), "layers for 3 features"),
        (saved({"0.weight": (2, 3), "x": (2,)}), "expected the tensors 0.bias"),
        (saved(layer, activation="magic"), "expected an activation of"),
        *((saved(layer, ("a", "b", name)), "expected the name of a feature") for name in names),
    ):
        path.write_bytes(content)
        with pytest.raises(PolicyError, match=message) as caught:
            Network.load(path)
        assert len(str(caught.value)) < 1000


def threshold_network(threshold: float) -> Network:
    """Inline where cost_estimate is below a threshold, as the policy `threshold` does."""
    weight = np.array([[-1.0], [0.0]], np.float32)
    return Network(("cost_estimate", "callee_users"), (weight,), (np.array([threshold], np.float32),))


@pytest.mark.parametrize("observation", ["flat", "vector"])
def test_features_decide(inline: CompilerEnv, corpus: Path, observation: str, middle: float, tmp_path: Path) -> None:
    policy = f"mlp:{tmp_path}/n.safetensors"
    with pytest.raises(PolicyError, match="there is no"):
        load_policy(policy, inline)
    threshold_network(7).save(tmp_path / "n.safetensors")
    identity = policy_identity(policy)
    threshold_network(middle).save(tmp_path / "n.safetensors")
    assert policy_identity(policy) != identity
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(policy, env), "calls")
    assert actions == play(inline, load_policy(f"threshold:{middle}", inline), "calls")[0]
    assert set(actions) == {0, 1}


def test_masked_actions_are_never_taken_and_priorities_differ(evict: CompilerEnv, priority: CompilerEnv) -> None:
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


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_positive_logit_is_a_call_that_is_inlined(outputs: int, inline: CompilerEnv) -> None:
    policy = MlpPolicy(inline, random_network(inline.feature_names, outputs))
    observations = np.stack([inline.observation_space.sample() for _ in range(20)])
    actions = [policy.act(observation, {}) for observation in observations]
    assert (policy.logits(observations) > 0).tolist() == [action == 1 for action in actions]
    assert {0, 1} == set(actions)


def test_networks_that_do_not_fit_the_environment_are_refused(inline: CompilerEnv, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="'mlp' needs 2 features that are missing: magic, more"):
        MlpPolicy(inline, random_network(("cost_estimate", "magic", "more"), 2))
    with pytest.raises(PolicyError, match="actions for its 3 outputs"):
        MlpPolicy(inline, random_network(inline.feature_names, 3))
    random_network(("inlining_default", "callee_kept"), 1).save(tmp_path / "a.safetensors")
    policy = f"mlp:{tmp_path}/a.safetensors"
    assert needs_callee_features(policy)
    assert with_callee_features({"limit": 1}, ["default", policy]) == {"limit": 1, "callee_features": True}
    assert with_callee_features({"limit": 1}, ["default", "threshold:5"]) == {"limit": 1}
    with pytest.raises(PolicyError, match="which this environment does not compute; make it with callee_features=True"):
        load_policy(policy, inline)
