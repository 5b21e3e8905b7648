"""Callee features: counted over the decisions of a compile, and part of every form of observation."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES, DISCARDABLE, INTERNAL, Call, DecisionHistory
from mlgo_gym.session.protocol.decision import DecisionSite


def test_the_history_counts_by_callee_by_caller_and_by_pair() -> None:
    history = DecisionHistory()
    history.add("f", "g", inlined=False)
    history.add("f", "g", inlined=True)
    history.add("f", "h", inlined=True)
    call = Call("g", INTERNAL, 1, 0, 7, 2, DISCARDABLE)
    values = dict(zip(CALLEE_FEATURES, history.features(DecisionSite("f", 1, 3), call, 4.0, 6.0), strict=True))
    assert values == {
        "callee_linkage": INTERNAL,
        "callee_unnamed": 1,
        "callee_comdat": 0,
        "caller_linkage": DISCARDABLE,
        "callee_lines": 7,
        "callee_calls": 2,
        "component_others": 0,
        "component_visits": 1,
        "component_decisions": 3,
        "callee_kept": 1,
        "callee_inlined": 1,
        "callee_users_left": 3,
        "callee_last": 0,
        "caller_inlined": 2,
        "caller_kept": 1,
        "pair_inlined": 1,
        "pair_kept": 1,
        "callee_inner_inlined": 0,
        "callee_inner_kept": 0,
        "module_decisions": 3,
        "module_share": 0.5,
    }


def test_the_symbol_of_a_visible_function_is_no_call() -> None:
    for linkage, users, last in ((INTERNAL, 1, 1), (DISCARDABLE, 2, 1), (INTERNAL, 2, 0)):
        values = DecisionHistory().features(DecisionSite("f", 0, 0), Call("g", linkage, 0, 0, 1, 0, 4), users, 3.0)
        assert values[list(CALLEE_FEATURES).index("callee_last")] == last


def test_observations_of_every_form_have_the_callee_features() -> None:
    for form in ("flat", "vector", "dict"):
        env = gym.make("mlgo/Inline-v0", observation=form, callee_features=True).unwrapped
        assert isinstance(env, CompilerEnv)
        assert env.feature_names[-len(CALLEE_FEATURES) :] == tuple(CALLEE_FEATURES)
        observation, info = env.reset(options={"module": "c/scheduler"})
        assert info["callee"]
        for decisions in range(2):
            assert env.observation_space.contains(observation)
            names = observation if form == "dict" else dict(zip(env.feature_names, observation.tolist(), strict=True))
            assert names["module_decisions"] == decisions
            observation, *_ = env.step(1)
        env.close()
    with pytest.raises(MlgoError, match="unexpected keyword argument 'callee_features'"):
        gym.make("mlgo/RegAllocEvict-v0", callee_features=True)
