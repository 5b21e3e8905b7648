"""Labels by look-ahead are the rewards of episodes with one other action."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.training.look_ahead_labels import label_by_look_ahead


@pytest.fixture(scope="module")
def env(varied: str) -> CompilerEnv:
    """Functions of register allocation."""
    return make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "scope": "function"})


def reward(env: CompilerEnv, policy: Policy, function: str, position: int, action: int | None) -> float:
    """Return the reward of an episode; at one decision another action is taken."""
    observation, info = env.reset(options={"module": "mixed", "function": function})
    index, over, total = 0, False, 0.0
    while not over:
        chosen = int(policy.act(observation, info))
        if index == position and action is not None:
            chosen = action
        observation, total, terminated, truncated, info = env.step(chosen)
        over, index = terminated or truncated, index + 1
    return float(total)


def test_a_cost_is_the_reward_that_the_action_loses(env: CompilerEnv) -> None:
    policy = load_policy("default", env)
    columns, counts = label_by_look_ahead(env, policy, "mixed", compiles=6, actions=2)
    assert counts["decisions"] == sum(env.decisions(env.corpus.module("mixed")).values())
    assert 0 < len(columns["answer"]) <= 3
    tried = 0
    for context, position, answer, costs in zip(
        columns["context"], columns["position"], columns["answer"], columns["costs"], strict=True
    ):
        assert costs[answer] == 0
        before = reward(env, policy, context, position, None)
        for action in np.flatnonzero(np.isfinite(costs)):
            after = reward(env, policy, context, position, int(action))
            assert costs[action] == pytest.approx(before - after)
            tried += action != answer
    assert tried == counts["compiles"] > 0


def test_the_seed_selects_the_decisions(env: CompilerEnv) -> None:
    policy = load_policy("default", env)
    one, two, other = (
        label_by_look_ahead(env, policy, "mixed", compiles=2, actions=1, seed=seed)[0] for seed in (0, 0, 1)
    )
    assert np.array_equal(one["costs"], two["costs"], equal_nan=True)
    sites = [list(zip(found["context"], found["position"], strict=True)) for found in (one, other)]
    assert sites[0] != sites[1]


def test_a_module_without_decisions_has_no_labels(env: CompilerEnv) -> None:
    columns, counts = label_by_look_ahead(env, load_policy("default", env), "leaf")
    assert (columns, counts["decisions"], counts["compiles"]) == ({}, 0, 0)
