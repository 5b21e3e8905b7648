"""Decisions of a policy outside an environment, in a compile of its own."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from mlgo_gym.attribution.inline_compile import run_inline_compile
from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.session_policy import SessionPolicy
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.session.protocol.decision import Decision


def test_the_history_has_the_advice_that_clang_received() -> None:
    env = gym.make("mlgo/Inline-v0", callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    policy = SessionPolicy(env.task, load_policy("inline-oz", env), "c/scheduler")
    advice: list[int] = []

    def choose(decision: Decision) -> int:
        own = policy(decision)
        advice.append(1 - own if len(advice) % 3 == 0 else own)
        return advice[-1]

    compilation = env.compilation(env.corpus.module("c/scheduler"))
    made = run_inline_compile(compilation, env.task, choose, 60.0)
    tails = [decision.payload[-4 * len(CALLEE_FEATURES) :] for decision in made.decisions]
    rows = np.frombuffer(b"".join(tails), "<f4").reshape(len(tails), -1)
    columns = [list(CALLEE_FEATURES).index(name) for name in ("caller_inlined", "caller_kept")]
    for number, decision in enumerate(made.decisions):
        earlier = [each.answer for each in made.decisions[:number] if each.context == decision.context]
        assert rows[number, columns].tolist() == [sum(earlier), len(earlier) - sum(earlier)]
    interest = policy.interest(made.decisions)
    assert len(set(interest)) > 3, "the policy is not equally unsure everywhere"
    env.close()
