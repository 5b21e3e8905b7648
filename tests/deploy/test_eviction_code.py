"""The native code and the exports of a policy for evictions decide as the policy does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.session_policy import decision_info
from mlgo_gym.session.protocol.decision import Decision
from tests.cli.command import run
from tests.policies.episodes import eviction_network


def decisions(env: RegAllocEvictEnv, policy: Policy) -> Iterator[tuple[Decision, int]]:
    """Yield each decision of two compiles by a policy, and the policy's choice."""
    for module in ("c/bigint", "c/json"):
        with env.compilation(env.corpus.module(module)).session(env.task.advisors) as session:
            while (decision := session.wait(60)) is not None:
                chosen = choose(env, policy, decision)
                yield decision, chosen
                session.advise(env.task.encode(decision, chosen) or b"")
            session.finish(60)


def choose(env: RegAllocEvictEnv, policy: Policy, decision: Decision) -> int:
    """Return the policy's choice; a network for evictions does not use the number of the decision."""
    return int(policy.act(env.task.observe(decision), decision_info(env.task, decision, "module", 0)))


@pytest.mark.libraries
def test_the_model_for_development_mode_decides_as_the_network_does(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    env = RegAllocEvictEnv(corpus="builtin")
    path, folder = tmp_path / "evict.safetensors", tmp_path / "model"
    eviction_network().save(path)
    assert run("export", "tflite", "--policy", f"mlp:{path}", "--output", folder).exit_code == 0
    network, model = (load_policy(policy, env) for policy in (f"mlp:{path}", f"tflite:{folder}"))
    compared = deviations = 0
    for decision, chosen in decisions(env, network):
        assert choose(env, model, decision) == chosen
        deviations += chosen != env.task.default_action(decision)
        compared += 1
    assert compared > 30
    assert deviations > compared / 10


def test_an_export_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evict.safetensors"
    eviction_network().save(path)
    for words, message in (
        ("onnx", "expected a policy of inlining"),
        ("tflite --level Os", "expected --level for a policy of inlining, .* omit --level$"),
        ("tflite --keep-default", "expected --keep-default for a policy of inlining, .* omit --keep-default$"),
    ):
        with pytest.raises(MlgoError, match=message):
            run("export", *words.split(), "--policy", f"mlp:{path}", "--output", tmp_path / "model")
