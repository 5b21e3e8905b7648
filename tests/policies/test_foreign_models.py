"""The policies `tflite:FILE` and `onnx:FILE` make the decisions of episodes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.model_process import ModelProcess
from mlgo_gym.policies.observation_samples import record_observations
from mlgo_gym.policies.onnx import OnnxPolicy
from mlgo_gym.policies.tflite import TflitePolicy
from tests.policies.episodes import play
from tests.policies.linear_models import (
    write_counting_tflite,
    write_endless_onnx,
    write_huge_onnx,
    write_onnx,
    write_tflite,
)
from tests.traces import ends_within

pytestmark = pytest.mark.libraries

DECIDES = [{"logging_name": "inlining_decision", "tensor_spec": {"name": "decision", "port": 0}}]

Make = Callable[[dict[str, float], float], str]


@pytest.fixture
def middle(inline: CompilerEnv) -> float:
    """A threshold that about half of the decisions of `calls` are below."""
    costs = record_observations(inline, observations=9)[:, inline.feature_names.index("cost_estimate")]
    return float(np.median(costs)) + 0.5


@pytest.fixture(params=["tflite", "onnx"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of model whose libraries are installed."""
    if request.param == "onnx":
        pytest.importorskip("onnx", reason="onnx is not installed")
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    else:
        pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
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


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_a_model_with_one_input_per_feature_drives_an_episode(
    make: Make, middle: float, observation: str, inline: CompilerEnv, corpus: Path
) -> None:
    spec = make({"callee_users": 0.0, "cost_estimate": -1.0}, middle)
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(spec, env), "calls")
    env.close()
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}


def test_a_feature_that_the_compiler_lacks_is_refused_with_the_list(make: Make, inline: CompilerEnv) -> None:
    spec = make({"magic": 1.0, "cost_estimate": 1.0, "more": 1.0}, 0)
    with pytest.raises(PolicyError, match=r"needs 2 features that are missing: magic \[1\], more \[1\]; got"):
        load_policy(spec, inline)


def test_inputs_of_tf_agents_for_training_are_zero(make: Make, inline: CompilerEnv) -> None:
    spec = make({"cost_estimate": 0.0, "step_type": 1.0, "reward": 1.0, "discount": 1.0}, 1)
    assert set(play(inline, load_policy(spec, inline), "calls")[0]) == {1}


def test_a_file_that_is_no_model_is_refused(make: Make, inline: CompilerEnv) -> None:
    spec = make({"cost_estimate": 1.0}, 0)
    Path(spec.partition(":")[2]).write_bytes(b"no model at all")
    with pytest.raises(PolicyError, match="expected a"):
        load_policy(spec, inline)


@pytest.mark.parametrize(
    ("kind", "module", "extra"), [("tflite", "ai_edge_litert", "tflite"), ("onnx", "onnxruntime", "onnx")]
)
def test_without_the_library_the_extra_is_named(
    kind: str, module: str, extra: str, inline: CompilerEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").touch()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'mlgo-gym\[{extra}\]'"):
        load_policy(f"{kind}:{tmp_path}/model", inline)


def process_of(policy: Policy) -> int:
    """Return the process id of a policy's model."""
    return foreign(policy)._model._process.pid


def foreign(policy: Policy) -> TflitePolicy | OnnxPolicy:
    """Return a policy that runs a model in a process."""
    assert isinstance(policy, TflitePolicy | OnnxPolicy)
    return policy


def test_a_process_that_ends_in_an_episode_is_an_error_and_the_next_episode_has_another(
    make: Make, middle: float, inline: CompilerEnv, nothing_is_left: None
) -> None:
    policy = load_policy(make({"callee_users": 0.0, "cost_estimate": -1.0}, middle), inline)
    expected = play(inline, policy, "calls")[0]
    observation, info = inline.reset(options={"module": "calls"})
    assert policy.act(observation, info) == expected[0]
    first = process_of(policy)
    os.kill(first, signal.SIGKILL)
    assert ends_within(first, 10)
    with pytest.raises(PolicyError, match=r"the model .* cannot be run: .* signal 9 \(SIGKILL\)"):
        policy.act(observation, info)
    assert process_of(policy) == 0
    assert play(inline, policy, "calls")[0] == expected
    assert process_of(policy) not in (0, first)
    inline.reset(options={"module": "calls"})
    inline.close()
    foreign(policy).close()


def test_a_process_has_no_threads_that_nothing_needs(inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    write_counting_tflite(tmp_path / "model", "cost_estimate", 1)
    policy = load_policy(f"tflite:{tmp_path}/model", inline)
    assert len(list(Path(f"/proc/{process_of(policy)}/task").iterdir())) == 1


def test_an_endless_loop_is_stopped(kind: str, inline: CompilerEnv, tmp_path: Path, nothing_is_left: None) -> None:
    process = ModelProcess(kind, seconds=1.0)
    if kind == "onnx":
        write_endless_onnx(tmp_path / "model", "cost_estimate")
        policy: Policy = OnnxPolicy(inline, tmp_path / "model", process)
    else:
        write_counting_tflite(tmp_path / "model", "cost_estimate", 1 << 62)
        policy = TflitePolicy(inline, tmp_path / "model", process)
    observation, info = inline.reset(options={"module": "calls"})
    with pytest.raises(PolicyError, match="no answer within 1 s and was stopped"):
        policy.act(observation, info)
    assert process_of(policy) == 0
    inline.close()


def test_a_model_that_fills_the_memory_is_an_error(inline: CompilerEnv, tmp_path: Path, nothing_is_left: None) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write_huge_onnx(tmp_path / "model", "cost_estimate")
    with pytest.raises(PolicyError, match=r"(?i)memory|alloc"):
        play(inline, load_policy(f"onnx:{tmp_path}/model", inline), "calls")
    inline.close()


class TestOutputSpec:
    """`output_spec.json` names the output of a TensorFlow Lite model that decides."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
        write_tflite(tmp_path / "model.tflite", {"cost_estimate": 0.0}, 2, prefix="serving_default_action_")
        return tmp_path

    @pytest.mark.parametrize("output", ["decision", "logit"])
    def test_the_output_that_it_names_decides(self, folder: Path, output: str, inline: CompilerEnv) -> None:
        (folder / "output_spec.json").write_text(json.dumps([{"tensor_spec": {"name": output, "port": 0}}]))
        assert set(play(inline, load_policy(f"tflite:{folder}", inline), "calls")[0]) == {1}

    def test_without_it_a_model_needs_a_single_output(self, folder: Path, inline: CompilerEnv) -> None:
        with pytest.raises(PolicyError, match="names one of logit:0, decision:0, got no such file"):
            load_policy(f"tflite:{folder}", inline)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[]", "list of outputs"),
            ("{}", "list of outputs"),
            ("?", "list of outputs"),
            ('[{"tensor_spec": {"name": "other"}}]', "expected one of the outputs logit:0, decision:0, got other:0"),
        ],
    )
    def test_a_malformed_or_unknown_output_is_refused(
        self, folder: Path, text: str, message: str, inline: CompilerEnv
    ) -> None:
        (folder / "output_spec.json").write_text(text)
        with pytest.raises(PolicyError, match=message):
            load_policy(f"tflite:{folder}", inline)
