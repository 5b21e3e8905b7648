"""The policies `mlp:FILE`: decisions by a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.loading import needs_callee_features, policy_identity
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.policies.observation_samples import record_observations
from tests.policies.episodes import play


def threshold_network(threshold: float) -> Network:
    """Inline where cost_estimate is below a threshold, as the policy `threshold` does."""
    weight = np.array([[-1.0], [0.0]], np.float32)
    return Network(("cost_estimate", "callee_users"), (weight,), (np.array([threshold], np.float32),))


def random_network(names: tuple[str, ...], outputs: int) -> Network:
    generator = np.random.default_rng(2)
    weight = generator.normal(size=(len(names), outputs)).astype(np.float32)
    return Network(names, (weight,), (np.zeros(outputs, np.float32),))


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_it_decides_by_the_features_it_names(
    inline: CompilerEnv, corpus: Path, observation: str, tmp_path: Path
) -> None:
    costs = record_observations(inline, observations=9)[:, inline.feature_names.index("cost_estimate")]
    middle = float(np.median(costs)) + 0.5
    threshold_network(middle).save(tmp_path / "n.safetensors")
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(f"mlp:{tmp_path}/n.safetensors", env), "calls")
    env.close()
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}


def test_masked_actions_are_never_taken(evict: CompilerEnv) -> None:
    network = random_network(evict.feature_names, 33)
    observation, info = evict.reset(options={"module": "c/bigint"})
    policy = MlpPolicy(evict, network)
    action = policy.act(observation, info)
    logits = network(observation["observations"])
    assert action == max(np.flatnonzero(info["action_mask"]), key=lambda column: logits[column])
    only = np.zeros(33, np.int8)
    only[int(logits.argmin())] = 1
    assert policy.act(observation, {"action_mask": only}) == int(logits.argmin())
    play(evict, policy, "c/bigint")


def test_a_network_of_joint_decisions_decides_on_observations_of_two_forms(varied: str) -> None:
    envs = [make_environment("mlgo/Joint-v0", {"corpus": varied, "observation": form}) for form in ("vector", "flat")]
    network = random_network(envs[0].feature_names[::-1], 42)
    of_vectors, of_parts = (play(env, MlpPolicy(env, network), "mixed")[0] for env in envs)
    assert of_vectors == of_parts
    assert len(set(of_parts)) > 4


def test_priorities_stay_within_their_bounds(priority: CompilerEnv) -> None:
    actions, _ = play(priority, MlpPolicy(priority, random_network(priority.feature_names, 1)), "calls")
    assert len({action.item() for action in actions}) > 1


def test_a_feature_that_the_compiler_lacks_is_refused_with_the_list(inline: CompilerEnv) -> None:
    with pytest.raises(PolicyError, match="'mlp' needs 2 features that are missing: magic, more"):
        MlpPolicy(inline, random_network(("cost_estimate", "magic", "more"), 2))


def test_outputs_that_are_no_actions_are_refused(inline: CompilerEnv) -> None:
    with pytest.raises(PolicyError, match="actions for its 3 outputs"):
        MlpPolicy(inline, random_network(inline.feature_names, 3))


def test_a_missing_file_is_an_error_and_another_file_another_policy(inline: CompilerEnv, tmp_path: Path) -> None:
    path = tmp_path / "n.safetensors"
    with pytest.raises(PolicyError, match="there is no"):
        load_policy(f"mlp:{path}", inline)
    threshold_network(7).save(path)
    first = policy_identity(f"mlp:{path}")
    threshold_network(8).save(path)
    assert policy_identity(f"mlp:{path}") != first


@pytest.mark.libraries
@pytest.mark.parametrize(("activation", "function"), [("tanh", "Tanh"), ("relu", "ReLU"), ("elu", "ELU")])
def test_decisions_are_those_of_the_torch_original(activation: str, function: str, recorded: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows, names = recorded
    normalization = Normalization.fit(rows, names)
    torch.manual_seed(0)
    between = getattr(torch.nn, function)
    original = torch.nn.Sequential(
        torch.nn.Linear(len(names), 64), between(), torch.nn.Linear(64, 64), between(), torch.nn.Linear(64, 2)
    )
    with torch.no_grad():
        logits = original(torch.from_numpy(normalization(rows))).numpy()
    state = {name: tensor.numpy() for name, tensor in original.state_dict().items()}
    network = Network.from_state(state, ["0", "2", "4"], names, activation=activation, normalization=normalization)
    decisions = np.array([network(row).argmax() for row in rows])
    assert set(decisions.tolist()) == {0, 1}
    assert np.array_equal(decisions, logits.argmax(1))


@pytest.fixture(scope="module")
def recorded() -> tuple[Any, tuple[str, ...]]:
    """Observations of the builtin corpus, and the names of their elements."""
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
    return record_observations(env, observations=1_000), env.feature_names


def write_network(path: Path, *weights: float) -> str:
    """Write a network of clang's decision and two features of the callee, and return its policy."""
    features = ("inlining_default", "callee_kept", "callee_users")
    Network(features, (np.array(weights, np.float32)[:, None],), (np.array([-0.5], np.float32),)).save(path)
    return f"mlp:{path}"


def test_a_network_with_callee_features_needs_an_environment_that_computes_them(
    inline: CompilerEnv, tmp_path: Path
) -> None:
    policy = write_network(tmp_path / "a.safetensors", 1, 0, 0)
    assert needs_callee_features(policy)
    with pytest.raises(
        PolicyError,
        match=f"^{policy} needs callee features, which this environment does not compute; make it with "
        "callee_features=True$",
    ):
        load_policy(policy, inline)


def test_an_evaluation_computes_callee_features_by_itself_and_keeps_episodes_apart(tmp_path: Path) -> None:
    as_clang = write_network(tmp_path / "clang.safetensors", 1, 0, 0)
    once = write_network(tmp_path / "once.safetensors", 1, -1, 0)
    results = [
        evaluate("mlgo/Inline-v0", policies=[as_clang, once], corpus="builtin", limit=3, envs=envs) for envs in (1, 4)
    ]
    assert not any(result.failures for result in results)
    assert results[0].change(as_clang) == 0
    actions = [sorted((each.policy, each.module, each.actions) for each in result.episodes) for result in results]
    assert actions[0] == actions[1]
