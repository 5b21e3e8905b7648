"""Which features a policy listens to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation.importance import Importance
from mlgo_gym.explanation.played import Blindfolded, Seen, answers, feature_groups, own_choice, seen_features
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.call_features import MEANINGS
from mlgo_gym.policies.network import Network

assert mlgo_gym

CORPUS = "builtin"


def shapley_shares(policy: str) -> dict[str, float]:
    """Return the mean of the absolute Shapley values of each feature, if the library is there."""
    pytest.importorskip("shap")
    found = Importance(CORPUS, policy, compiled=0, shap=20, limit=2, largest=25_000).find()
    return {each.name: each.shap or 0.0 for each in found.features}


def test_a_rule_of_one_feature_listens_to_that_one_alone() -> None:
    wanted = Importance(CORPUS, "threshold:20", limit=3, largest=25_000)
    episodes = []
    found = wanted.find(note=lambda: episodes.append(1))
    first, *others = found.features
    assert first.name == "cost_estimate"
    assert first.decisions > 0.1
    assert first.cost is not None
    assert first.cost != 0
    assert first.cost_interval is not None
    assert {each.decisions for each in others} == {0.0}
    assert {each.cost for each in others} == {None}
    assert len(episodes) == 2 * found.modules <= wanted.steps(wanted.make())


def test_clangs_own_choice_is_heard_by_who_repeats_it() -> None:
    found = Importance(CORPUS, "default", compiled=0, limit=2, largest=25_000).find()
    assert [each.name for each in found.features if each.decisions] == ["inlining_default"]


def test_a_policy_that_answers_by_chance_is_refused() -> None:
    with pytest.raises(MlgoError, match="in two ways"):
        Importance(CORPUS, "random", limit=1, largest=25_000).find()


def test_the_columns_of_a_tensor_are_one_feature_and_the_mask_is_none() -> None:
    groups = feature_groups(RegAllocEvictEnv().feature_names)
    assert "mask" not in groups
    assert len(groups["is_hint"]) == 33


def test_masked_actions_stay_masked() -> None:
    found = Importance(
        CORPUS, "first_legal", "mlgo/RegAllocEvict-v0", {"max_decisions": 20}, compiled=0, limit=2, largest=25_000
    ).find()
    assert {each.decisions for each in found.features} == {0.0}


def test_the_blindfolded_see_one_feature_of_other_decisions() -> None:
    env = InlineEnv()
    rows: list[Any] = []

    class Recorder:
        def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
            rows.append(observation)
            return info["default_action"]

    columns = feature_groups(env.feature_names)["inlining_default"]
    pool = np.full((3, len(env.feature_names)), 1, np.float32)
    policy = Blindfolded(Recorder(), columns, pool, own_choice(env), seed=0)
    seen = Seen(np.zeros(len(env.feature_names), np.float32), None, 0, "")
    assert policy.act(seen.row, {"default_action": 0}) == 1
    assert rows[0].sum() == 1


@pytest.mark.libraries
def test_shapley_values_agree_on_what_a_rule_listens_to() -> None:
    shares = shapley_shares("threshold:20")
    assert shares["cost_estimate"] > 0.05
    assert sum(value for name, value in shares.items() if name != "cost_estimate") == pytest.approx(0, abs=1e-6)


def test_a_network_that_hears_of_calls_alone_listens_to_that_alone(tmp_path: Path) -> None:
    # It inlines what nothing else uses.
    network = Network(("callee_last",), (np.ones((1, 1), np.float32),), (np.array([-0.5], np.float32),))
    network.save(tmp_path / "last.safetensors")
    found = Importance(CORPUS, f"mlp:{tmp_path}/last.safetensors", limit=3, largest=25_000).find()
    first, *others = found.features
    assert first.name == "callee_last"
    assert first.meaning == MEANINGS["callee_last"]
    assert first.decisions > 0.1
    assert first.cost
    assert {each.decisions for each in others} == {0.0}
    assert found.failed == {}


def test_a_network_that_sees_calls_answers_as_in_an_episode_of_its_own() -> None:
    env = gym.make("mlgo/Inline-v0", calls=True).unwrapped
    assert isinstance(env, CompilerEnv)
    policies = [load_policy("inline-oz", env) for _ in range(2)]
    observation, info = env.reset(options={"module": "c/hashmap"})
    over, asked = False, []
    while not over:
        seen = Seen.of(policies[0], observation, info)
        assert seen.row.shape == (len(seen_features(env, policies[0])),)
        action = seen.answer(policies[0], seen.row, info)
        assert action == policies[1].act(observation, info)
        asked.append((seen, action))
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    rows = np.stack([seen.row for seen, _ in asked])
    assert answers(policies[0], [seen for seen, _ in asked], rows, own_choice(env)) == [each for _, each in asked]
    env.close()


@pytest.mark.libraries
def test_shapley_values_of_a_network_that_sees_calls_are_of_its_logit() -> None:
    shares = shapley_shares("inline-oz")
    assert shares["callee_last"] > 0
    assert shares["cost_estimate"] > 0
