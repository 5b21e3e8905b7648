"""Importance of the features of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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

SMALL: dict[str, Any] = {"limit": 2, "largest": 25_000}


def importance(policy: str, **settings: Any) -> Importance:
    return Importance("builtin", policy, **{**SMALL, **settings})


def test_a_rule_depends_on_its_feature_alone() -> None:
    study, episodes = importance("threshold:20"), []
    found = study.run(note=lambda: episodes.append(1))
    first, *others = found.features
    assert first.name == "cost_estimate"
    assert first.changed > 0.1
    assert first.cost
    assert first.cost_interval is not None
    assert {(feature.changed, feature.cost) for feature in others} == {(0.0, None)}
    assert len(episodes) == 2 * found.modules <= study.steps(study.make())
    found = importance("default", cost_features=0).run()
    assert [feature.name for feature in found.features if feature.changed] == ["inlining_default"]
    with pytest.raises(MlgoError, match="in two ways"):
        importance("random").run()


@pytest.mark.slow
def test_a_network_of_one_callee_feature_depends_on_it_alone(tmp_path: Path) -> None:
    # It inlines the last call of a function.
    network = Network(("callee_last",), (np.ones((1, 1), np.float32),), (np.array([-0.5], np.float32),))
    network.save(tmp_path / "last.safetensors")
    found = importance(f"mlp:{tmp_path}/last.safetensors", limit=3).run()
    first, *others = found.features
    assert (first.name, first.meaning) == ("callee_last", CALLEE_FEATURES["callee_last"])
    assert first.changed > 0.1
    assert first.cost
    assert {feature.changed for feature in others} == {0.0}
    assert found.failed == {}


def test_the_columns_of_a_tensor_are_one_feature_and_masked_actions_stay_masked() -> None:
    groups = feature_groups(RegAllocEvictEnv().feature_names)
    assert "mask" not in groups
    assert len(groups["is_hint"]) == 33
    arguments = {"environment": "mlgo/RegAllocEvict-v0", "arguments": {"max_decisions": 20}}
    found = importance("first_legal", **arguments, cost_features=0).run()
    assert {feature.changed for feature in found.features} == {0.0}


class Recorder:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        self.rows.append(observation)
        return info["default_action"]


def test_a_permuted_policy_gets_one_feature_of_another_decision() -> None:
    env, recorder = InlineEnv(), Recorder()
    columns = feature_groups(env.feature_names)["inlining_default"]
    pool = np.full((3, len(env.feature_names)), 1, np.float32)
    policy = PermutedPolicy(recorder, columns, pool, default_column(env), seed=0)
    assert policy.act(np.zeros(len(env.feature_names), np.float32), {"default_action": 0}) == 1
    assert recorder.rows[0].sum() == 1


def test_recorded_decisions_have_the_actions_of_the_episode() -> None:
    env = InlineEnv(callee_features=True)
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
        observation, _, over, _, info = env.step(action)
    rows = np.stack([decision.row for decision in recorded])
    assert actions_on(policies[0], recorded, rows, default_column(env)) == actions


@pytest.mark.libraries
def test_shapley_values_of_a_rule_are_those_of_its_feature_and_of_a_network_those_of_its_logit() -> None:
    pytest.importorskip("shap")

    def shares(policy: str) -> dict[str, float]:
        found = importance(policy, cost_features=0, shap=20).run()
        return {feature.name: feature.shap or 0.0 for feature in found.features}

    rule, network = shares("threshold:20"), shares("inline-oz")
    assert rule.pop("cost_estimate") > 0.05
    assert sum(rule.values()) == pytest.approx(0, abs=1e-6)
    assert network["callee_last"] > 0
    assert network["cost_estimate"] > 0
