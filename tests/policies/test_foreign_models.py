"""The policies `tflite:FILE` and `onnx:FILE` make the decisions of episodes."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import BatchedPolicy, act_batch, load_policy
from mlgo_gym.policies.observation_samples import record_observations
from tests.policies.episodes import play
from tests.policies.linear_models import write_huge_onnx, write_onnx, write_tflite
from tests.policies.test_rules import decisions
from tests.traces import children, ends_within

DECIDES = [{"logging_name": "inlining_decision", "tensor_spec": {"name": "decision", "port": 0}}]
LIBRARIES = {"tflite": "ai_edge_litert", "onnx": "onnxruntime"}

Make = Callable[[dict[str, float], float], str]


@pytest.mark.parametrize("kind", LIBRARIES)
def test_without_the_library_the_extra_is_named(kind: str, inline: CompilerEnv, tmp_path: Path) -> None:
    if importlib.util.find_spec(LIBRARIES[kind]) is not None:
        pytest.skip(f"{LIBRARIES[kind]} is installed")
    (tmp_path / "model").touch()
    with pytest.raises(MissingExtraError, match=rf"\[{kind}\]'"):
        load_policy(f"{kind}:{tmp_path}/model", inline)


@pytest.fixture
def middle(inline: CompilerEnv) -> float:
    """A threshold that about half of the decisions of `calls` are below."""
    costs = record_observations(inline, observations=9)[:, inline.feature_names.index("cost_estimate")]
    return float(np.median(costs)) + 0.5


@pytest.fixture(params=LIBRARIES)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of model whose libraries are installed."""
    for library in (LIBRARIES[request.param], *(["onnx"] if request.param == "onnx" else [])):
        pytest.importorskip(library, reason=f"{library} is not installed")
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Make:
    """Return a function that writes a linear model and returns the policy's specification."""

    def write(weights: dict[str, float], bias: float) -> str:
        path = tmp_path / f"model.{kind}"
        if kind == "onnx":
            write_onnx(path, weights, bias)
        else:
            write_tflite(path, weights, bias)
            (tmp_path / "output_spec.json").write_text(json.dumps(DECIDES))
        return f"{kind}:{path}"

    return write


@pytest.mark.libraries
@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_a_model_with_one_input_per_feature_drives_an_episode(
    make: Make, middle: float, observation: str, inline: CompilerEnv, corpus: Path
) -> None:
    spec = make({"callee_users": 0.0, "cost_estimate": -1.0}, middle)
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(spec, env), "calls")
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}
    # Inputs that TF-Agents needs for training are zero.
    spec = make({"cost_estimate": 0.0, "step_type": 1.0, "reward": 1.0, "discount": 1.0}, 1)
    assert set(play(inline, load_policy(spec, inline), "calls")[0]) == {1}


@pytest.mark.libraries
def test_unusable_models_are_refused(make: Make, inline: CompilerEnv) -> None:
    spec = make({"magic": 1.0, "cost_estimate": 1.0, "more": 1.0}, 0)
    with pytest.raises(PolicyError, match=r"needs 2 features that are missing: magic \[1\], more \[1\]; got"):
        load_policy(spec, inline)
    Path(spec.partition(":")[2]).write_bytes(b"no model at all")
    with pytest.raises(PolicyError, match="expected a"):
        load_policy(spec, inline)


@pytest.mark.libraries
@pytest.mark.parametrize("batch", [1, "batch"])
def test_batches_are_decided_as_each_decision_alone(
    kind: str, batch: int | str, middle: float, inline: CompilerEnv, tmp_path: Path
) -> None:
    if kind == "onnx":
        write_onnx(tmp_path / "model", {"cost_estimate": -1.0, "callee_users": 0.0}, middle, batch=batch)
    else:
        write_tflite(tmp_path / "model", {"cost_estimate": -1.0}, middle)
        (tmp_path / "output_spec.json").write_text(json.dumps(DECIDES))
    policy = load_policy(f"{kind}:{tmp_path}/model", inline)
    assert isinstance(policy, BatchedPolicy) is (kind == "onnx")
    observations, infos = decisions(inline, "calls")
    alone = [policy.act(observation, info) for observation, info in zip(observations, infos, strict=True)]
    assert act_batch(policy, observations, infos) == alone
    assert set(alone) == {0, 1}


@pytest.mark.libraries
def test_a_process_that_ends_in_an_episode_is_an_error_and_the_next_episode_has_another(
    make: Make, middle: float, inline: CompilerEnv
) -> None:
    before = children()
    policy = load_policy(make({"callee_users": 0.0, "cost_estimate": -1.0}, middle), inline)
    (first,) = children() - before
    assert len(list(Path(f"/proc/{first}/task").iterdir())) < 4, "it has no threads that nothing needs"
    expected = play(inline, policy, "calls")[0]
    observation, info = inline.reset(options={"module": "calls"})
    assert policy.act(observation, info) == expected[0]
    os.kill(first, signal.SIGKILL)
    assert ends_within(first, 10)
    with pytest.raises(PolicyError, match=r"the model .* cannot be run: .* signal 9 \(SIGKILL\)"):
        policy.act(observation, info)
    assert play(inline, policy, "calls")[0] == expected


@pytest.mark.libraries
def test_a_model_that_fills_the_memory_is_an_error(inline: CompilerEnv, tmp_path: Path, nothing_is_left: None) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write_huge_onnx(tmp_path / "model", "cost_estimate")
    with pytest.raises(PolicyError, match=r"(?i)memory|alloc"):
        play(inline, load_policy(f"onnx:{tmp_path}/model", inline), "calls")
    inline.close()


@pytest.mark.libraries
def test_the_output_that_its_specification_names_decides(inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    write_tflite(tmp_path / "model.tflite", {"cost_estimate": 0.0}, 2, prefix="serving_default_action_")
    policy, spec = f"tflite:{tmp_path}", tmp_path / "output_spec.json"
    with pytest.raises(PolicyError, match="names one of logit:0, decision:0, got no such file"):
        load_policy(policy, inline)
    for output in ("decision", "logit"):
        spec.write_text(json.dumps([{"tensor_spec": {"name": output, "port": 0}}]))
        assert set(play(inline, load_policy(policy, inline), "calls")[0]) == {1}
    for text, message in (
        ("[]", "list of outputs"),
        ("{}", "list of outputs"),
        ("?", "list of outputs"),
        ('[{"tensor_spec": {"name": "other"}}]', "expected one of the outputs logit:0, decision:0, got other:0"),
    ):
        spec.write_text(text)
        with pytest.raises(PolicyError, match=message):
            load_policy(policy, inline)
