"""Several decisions at once are the same as each alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import BatchedPolicy, Policy, act_batch, load_policy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.protocol import row, rows
from tests.policies.linear_models import write_onnx, write_tflite


def stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
    return np.stack(observations)


def decisions(env: CompilerEnv, module: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the decisions of an episode under clang's own choices, as a batch."""
    observation, info = env.reset(options={"module": module})
    observations, infos, over = [observation], [info], False
    while not over:
        observation, _, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
        if not over:
            observations.append(observation)
            infos.append(info)
    assert len(infos) > 2
    return stack(observations), infos


def agree(policy: Policy, observations: Any, infos: list[dict[str, Any]]) -> set[Any]:
    """Check that batches of two sizes give the same actions as single decisions, and return the actions."""
    alone = [policy.act(row(observations, number), info) for number, info in enumerate(infos)]
    assert act_batch(policy, observations, infos) == alone
    first = range(2)
    assert act_batch(policy, rows(observations, first), infos[:2]) == alone[:2]
    return set(alone)


@pytest.mark.parametrize("observation", ["flat", "dict"])
@pytest.mark.parametrize("environment", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"])
def test_a_network(environment: str, observation: str, varied: str) -> None:
    env = make_environment(environment, {"corpus": varied, "observation": observation})
    names = env.feature_names if observation == "flat" else env.feature_names[-9:]
    if environment == "mlgo/RegAllocEvict-v0" and observation == "flat":
        names = (*names, "action_mask[3]")
    outputs = int(env.action_space.n)  # type: ignore[attr-defined]
    generator = np.random.default_rng(1)
    weights = [generator.normal(size=shape).astype(np.float32) for shape in ((len(names), 64), (64, outputs))]
    biases = tuple(np.zeros(size, np.float32) for size in (64, outputs))
    policy = MlpPolicy(env, Network(names, tuple(weights), biases, "relu"))
    assert isinstance(policy, BatchedPolicy)
    agree(policy, *decisions(env, "mixed"))
    env.close()


@pytest.mark.libraries
@pytest.mark.parametrize("batch", [1, "batch"])
def test_an_onnx_model_with_a_fixed_first_dimension_or_a_free_one(
    batch: int | str, inline: CompilerEnv, tmp_path: Path
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    observations, infos = decisions(inline, "calls")
    middle = float(np.median(observations[:, inline.feature_names.index("cost_estimate")])) + 0.5
    write_onnx(tmp_path / "model.onnx", {"cost_estimate": -1.0, "callee_users": 0.0}, middle, batch=batch)
    assert agree(load_policy(f"onnx:{tmp_path}/model.onnx", inline), observations, infos) == {0, 1}


@pytest.mark.libraries
def test_a_tensorflow_lite_model_decides_one_by_one(inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    observations, infos = decisions(inline, "calls")
    middle = float(np.median(observations[:, inline.feature_names.index("cost_estimate")])) + 0.5
    write_tflite(tmp_path / "model.tflite", {"cost_estimate": -1.0}, middle)
    (tmp_path / "output_spec.json").write_text('[{"tensor_spec": {"name": "decision"}}]')
    policy = load_policy(f"tflite:{tmp_path}", inline)
    assert not isinstance(policy, BatchedPolicy)
    assert agree(policy, observations, infos) == {0, 1}


class Recording:
    """Records its calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Mapping[str, Any]]] = []

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        self.seen.append((observation, info))
        return len(self.seen)


def test_a_policy_without_a_batched_form_sees_single_observations() -> None:
    policy = Recording()
    observations = {"vector": np.arange(6).reshape(3, 2), "scalar": np.arange(3)}
    infos = [{"decision_index": number} for number in range(3)]
    assert act_batch(policy, observations, infos) == [1, 2, 3]
    observation, info = policy.seen[1]
    assert (observation["vector"].tolist(), observation["scalar"].shape, info) == ([2, 3], (), {"decision_index": 1})
