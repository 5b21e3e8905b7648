"""Which features a policy listens to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation.importance import Importance
from mlgo_gym.explanation.played import Blindfolded, Seen, feature_groups, own_choice

CORPUS = "builtin"


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
    groups = feature_groups(RegAllocEvictEnv())
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

    columns = feature_groups(env)["inlining_default"]
    pool = np.full((3, len(env.feature_names)), 1, np.float32)
    policy = Blindfolded(Recorder(), columns, pool, own_choice(env), seed=0)
    seen = Seen(np.zeros(len(env.feature_names), np.float32), None, 0, "")
    assert policy.act(seen.row, {"default_action": 0}) == 1
    assert rows[0].sum() == 1


@pytest.mark.libraries
def test_shapley_values_agree_on_what_a_rule_listens_to() -> None:
    pytest.importorskip("shap")
    found = Importance(CORPUS, "threshold:20", compiled=0, shap=20, limit=2, largest=25_000).find()
    shares = {each.name: each.shap or 0.0 for each in found.features}
    assert shares["cost_estimate"] > 0.05
    assert sum(value for name, value in shares.items() if name != "cost_estimate") == pytest.approx(0, abs=1e-6)


def test_a_policy_that_sees_calls_is_refused() -> None:
    with pytest.raises(MlgoError, match="let mlgo-gym explain tell what it goes by"):
        Importance("builtin", "inline-oz-calls").find()
    # Of two networks under a name it is the one of clang's features.
    assert not Importance("builtin", "inline-oz").make().setup.settings.calls
