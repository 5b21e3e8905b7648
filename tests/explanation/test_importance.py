"""Importance of the features of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation.importance import Importance
from mlgo_gym.explanation.recorded_decisions import (
    PermutedPolicy,
    RecordedDecision,
    actions_on,
    default_column,
    feature_groups,
)
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES

CORPUS = "builtin"


def shapley_shares(policy: str) -> dict[str, float]:
    """Return the mean absolute Shapley value of each feature, if shap is installed."""
    pytest.importorskip("shap")
    found = Importance(CORPUS, policy, cost_features=0, shap=20, limit=2, largest=25_000).run()
    return {each.name: each.shap or 0.0 for each in found.features}


def test_a_rule_depends_on_its_feature_alone() -> None:
    study = Importance(CORPUS, "threshold:20", limit=3, largest=25_000)
    episodes = []
    found = study.run(note=lambda: episodes.append(1))
    first, *others = found.features
    assert first.name == "cost_estimate"
    assert first.changed > 0.1
    assert first.cost is not None
    assert first.cost != 0
    assert first.cost_interval is not None
    assert {each.changed for each in others} == {0.0}
    assert {each.cost for each in others} == {None}
    assert len(episodes) == 2 * found.modules <= study.steps(study.make())


def test_the_default_policy_depends_on_clangs_own_choice() -> None:
    found = Importance(CORPUS, "default", cost_features=0, limit=2, largest=25_000).run()
    assert [each.name for each in found.features if each.changed] == ["inlining_default"]


def test_a_random_policy_is_refused() -> None:
    with pytest.raises(MlgoError, match="in two ways"):
        Importance(CORPUS, "random", limit=1, largest=25_000).run()


def test_the_columns_of_a_tensor_are_one_feature_and_the_mask_is_not() -> None:
    groups = feature_groups(RegAllocEvictEnv().feature_names)
    assert "mask" not in groups
    assert len(groups["is_hint"]) == 33


def test_masked_actions_stay_masked() -> None:
    found = Importance(
        CORPUS, "first_legal", "mlgo/RegAllocEvict-v0", {"max_decisions": 20}, cost_features=0, limit=2, largest=25_000
    ).run()
    assert {each.changed for each in found.features} == {0.0}


def test_a_permuted_policy_gets_one_feature_of_another_decision() -> None:
    env = InlineEnv()
    rows: list[Any] = []

    class Recorder:
        def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
            rows.append(observation)
            return info["default_action"]

    columns = feature_groups(env.feature_names)["inlining_default"]
    pool = np.full((3, len(env.feature_names)), 1, np.float32)
    policy = PermutedPolicy(Recorder(), columns, pool, default_column(env), seed=0)
    seen = RecordedDecision(np.zeros(len(env.feature_names), np.float32), None, 0, "")
    assert policy.act(seen.row, {"default_action": 0}) == 1
    assert rows[0].sum() == 1


@pytest.mark.libraries
def test_shapley_values_of_a_rule_are_those_of_its_feature() -> None:
    shares = shapley_shares("threshold:20")
    assert shares["cost_estimate"] > 0.05
    assert sum(value for name, value in shares.items() if name != "cost_estimate") == pytest.approx(0, abs=1e-6)


def test_a_network_of_one_callee_feature_depends_on_it_alone(tmp_path: Path) -> None:
    # It inlines the last call of a function.
    network = Network(("callee_last",), (np.ones((1, 1), np.float32),), (np.array([-0.5], np.float32),))
    network.save(tmp_path / "last.safetensors")
    found = Importance(CORPUS, f"mlp:{tmp_path}/last.safetensors", limit=3, largest=25_000).run()
    first, *others = found.features
    assert first.name == "callee_last"
    assert first.meaning == CALLEE_FEATURES["callee_last"]
    assert first.changed > 0.1
    assert first.cost
    assert {each.changed for each in others} == {0.0}
    assert found.failed == {}


def test_recorded_decisions_have_the_actions_of_the_episode() -> None:
    env = gym.make("mlgo/Inline-v0", callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    policies = [load_policy("inline-oz", env) for _ in range(2)]
    observation, info = env.reset(options={"module": "c/hashmap"})
    over, recorded, actions = False, [], []
    while not over:
        decision = RecordedDecision.of(observation, info)
        assert decision.row.shape == (len(env.feature_names),)
        action = decision.act(policies[0], decision.row, info)
        assert action == policies[1].act(observation, info)
        recorded.append(decision)
        actions.append(action)
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    rows = np.stack([decision.row for decision in recorded])
    assert actions_on(policies[0], recorded, rows, default_column(env)) == actions
    env.close()


@pytest.mark.libraries
def test_shapley_values_of_a_network_are_those_of_its_logit() -> None:
    shares = shapley_shares("inline-oz")
    assert shares["callee_last"] > 0
    assert shares["cost_estimate"] > 0
