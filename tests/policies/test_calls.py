"""Networks that see calls and the decisions before."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.placed_compile import compile_placed
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.answers import Answers
from mlgo_gym.policies.call_features import CALL_FEATURES, CallHistory, features_of_calls
from mlgo_gym.policies.calls import CallsPolicy
from mlgo_gym.policies.loading import wants_calls, with_calls
from mlgo_gym.policies.network import Network
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.inline_calls import DISCARDABLE, INTERNAL, Call

assert mlgo_gym

FEATURES = ("inlining_default", "callee_kept", "callee_users")


def write(path: Path, weights: tuple[float, ...], bias: float) -> str:
    weight = np.array(weights, np.float32)[:, None]
    Network(FEATURES, (weight,), (np.array([bias], np.float32),)).save(path)
    return f"mlp:{path}"


def test_the_history_counts_by_callee_by_caller_and_by_pair() -> None:
    history = CallHistory()
    history.add("f", "g", inlined=False)
    history.add("f", "g", inlined=True)
    history.add("f", "h", inlined=True)
    call = Call("g", INTERNAL, 1, 0, 7, 2, DISCARDABLE)
    values = dict(zip(CALL_FEATURES, history.features("f", 1, 3, call, 4.0, 6.0), strict=True))
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


@pytest.mark.parametrize(("linkage", "users", "last"), [(INTERNAL, 1, 1), (DISCARDABLE, 2, 1), (INTERNAL, 2, 0)])
def test_the_symbol_of_a_function_that_others_see_is_no_call(linkage: int, users: float, last: int) -> None:
    values = CallHistory().features("f", 0, 0, Call("g", linkage, 0, 0, 1, 0, 4), users, 3.0)
    assert values[CALL_FEATURES.index("callee_last")] == last


def test_an_environment_that_foretells_no_calls_is_refused(tmp_path: Path) -> None:
    env = gym.make("mlgo/Inline-v0")
    with pytest.raises(PolicyError, match="--set calls=true"):
        load_policy(write(tmp_path / "a.safetensors", (1, 0, 0), -0.5), env)
    env.close()


def test_a_decision_without_a_call_is_refused(tmp_path: Path) -> None:
    env = gym.make("mlgo/Inline-v0", calls=True)
    policy = load_policy(write(tmp_path / "a.safetensors", (1, 0, 0), -0.5), env)
    with pytest.raises(PolicyError, match="here nobody foretells them"):
        policy.act(None, {"decision": 0, "context": "f"})
    env.close()


def test_only_networks_that_see_calls_want_them(tmp_path: Path) -> None:
    assert wants_calls(write(tmp_path / "a.safetensors", (1, 0, 0), -0.5))
    assert not wants_calls("inline-oz-plain")
    assert not wants_calls("default")


def test_an_evaluation_foretells_calls_by_itself_and_episodes_do_not_mix(tmp_path: Path) -> None:
    as_clang = write(tmp_path / "clang.safetensors", (1, 0, 0), -0.5)
    once = write(tmp_path / "once.safetensors", (1, -1, 0), -0.5)
    found = [
        evaluate("mlgo/Inline-v0", policies=[as_clang, once], corpus="builtin", limit=3, envs=envs) for envs in (1, 4)
    ]
    assert not any(result.failures for result in found)
    assert found[0].change(as_clang) == 0
    made = [sorted((each.policy, each.module, each.actions) for each in result.episodes) for result in found]
    assert made[0] == made[1]


def test_what_it_sees_of_a_compile_that_is_over_is_what_it_saw_while_clang_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = gym.make("mlgo/Inline-v0", calls=True).unwrapped
    assert isinstance(env, CompilerEnv)
    policy = load_policy("inline-oz-calls", env)
    assert isinstance(policy, CallsPolicy)
    seen = []
    given = CallHistory.features

    def features(self: CallHistory, *arguments: object) -> object:
        seen.append(given(self, *arguments))  # type: ignore[arg-type] # as they came
        return seen[-1]

    monkeypatch.setattr(CallHistory, "features", features)
    answers = Answers(env.task, policy, "c/scheduler")

    def choose(decision: Decision) -> int:
        own = answers(decision)
        # Another than the policy answers every third decision, and the policy has to see that.
        return 1 - own if len(seen) % 3 == 0 else own

    made = compile_placed(env.compilation(env.corpus.module("c/scheduler")), env.task, choose, 60.0, foretell=True)
    monkeypatch.undo()
    rows = features_of_calls(made.decisions, env.task.headers[0].dtype)
    assert np.array_equal(rows, np.stack(seen))
    assert len({tuple(row) for row in rows.tolist()}) > 3
    interest = answers.interest(made.decisions)
    assert len(set(interest)) > 3, "it is not equally unsure everywhere"
    with pytest.raises(MlgoError, match="whose calls nobody foretold"):
        features_of_calls([made.decisions[0]._replace(call=None)], env.task.headers[0].dtype)
    env.close()


def test_an_environment_has_calls_where_a_policy_wants_them() -> None:
    assert with_calls({"limit": 1}, ["default", "inline-oz-calls"]) == {"limit": 1, "calls": True}
    assert with_calls({"limit": 1}, ["default", "inline-oz-plain"]) == {"limit": 1}
