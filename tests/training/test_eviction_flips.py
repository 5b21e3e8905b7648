"""Labels of evictions are the changes of compiles with one flip in one function."""

from __future__ import annotations

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import run_allocation_compile
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.session.protocol.decision import Decision
from mlgo_gym.training.eviction_flips import label_evictions

pytest.importorskip("capstone")


MODULE = "c/json"
"""A builtin module with evictions in four functions."""


@pytest.fixture(scope="module")
def env() -> CompilerEnv:
    """Evictions with the price of all executed instructions."""
    return make_environment("mlgo/RegAllocEvict-v0", {"corpus": "builtin", "metric": "estimated-instructions"})


def cost_with(env: CompilerEnv, function: str, position: int, column: int | None) -> float:
    """Return the cost of the module with one other column in one function, and clang's own choice elsewhere."""

    def choose(decision: Decision, _: int) -> int:
        flipped = column is not None and decision.site[::2] == (function, position)
        return column if flipped and column is not None else int(env.task.default_action(decision))

    return run_allocation_compile(env.setup, env.compilation(env.corpus.module(MODULE)), choose).cost


def test_a_label_is_the_exact_change_by_its_flip_alone(env: CompilerEnv) -> None:
    found = label_evictions(env, load_policy("default", env), MODULE, compiles=4)
    columns = found.columns
    assert len(set(columns["context"])) > 1
    before, tried = cost_with(env, "", 0, None), 0
    for context, position, answer, costs in zip(
        columns["context"], columns["position"], columns["answer"], columns["costs"], strict=True
    ):
        assert costs[answer] == 0
        for column in np.flatnonzero(np.isfinite(costs)):
            tried += column != answer
            after = cost_with(env, context, position, int(column))
            assert costs[column] == pytest.approx(after - before, abs=1e-6 * before)
    assert tried == found.counts["flips"] > found.counts["compiles"]


def test_deviations_of_a_policy_are_taken_back_first(env: CompilerEnv) -> None:
    columns = label_evictions(env, load_policy("never_evict", env), MODULE, compiles=2).columns
    deviating = columns["answer"] != columns["default"]
    assert deviating.any()
    for default, costs in zip(columns["default"][deviating], np.array(columns["costs"])[deviating], strict=True):
        assert np.isfinite(costs[default])


def test_the_seed_selects_the_flips(env: CompilerEnv) -> None:
    policy = load_policy("default", env)
    one, two, other = (label_evictions(env, policy, MODULE, compiles=2, seed=seed).columns for seed in (0, 0, 1))
    assert np.array_equal(one["costs"], two["costs"], equal_nan=True)
    sites = [list(zip(found["context"], found["position"], strict=True)) for found in (one, other)]
    assert sites[0] != sites[1]


def test_a_module_without_decisions_has_no_labels(varied: str) -> None:
    env = make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "metric": "estimated-instructions"})
    found = label_evictions(env, load_policy("default", env), "leaf")
    assert (found.columns, found.counts["decisions"], found.counts["flips"]) == ({}, 0, 0)
