"""The policies `tflite:FILE` and `onnx:FILE`."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlgo_gym import CompilerEnv, Network
from mlgo_gym.errors import PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.foreign_model import ForeignModel, ForeignPolicy, ModelTensor
from tests.policies.episodes import play

DECIDES = [{"logging_name": "inlining_decision", "tensor_spec": {"name": "inlining_decision", "port": 0}}]
LIBRARIES = {"tflite": "ai_edge_litert", "onnx": "onnxruntime"}
Make = Callable[[dict[str, float], float], str]


def linear(weights: Mapping[str, float], bias: float) -> Network:
    """Return a network of one layer."""
    column = np.array([*weights.values()], np.float32)[:, None]
    return Network(tuple(weights), (column,), (np.array([bias], np.float32),))


def write_onnx(path: Path, weights: Mapping[str, float], bias: float) -> None:
    """Write an ONNX model with the decision as its first output, and a free first dimension."""
    from onnx import TensorProto, checker, helper

    constants = {"weights": [*weights.values()], "bias": [bias], "zero": [0.0]}
    nodes: tuple[tuple[str, list[str], str, dict[str, int]], ...] = (
        ("Concat", [*weights], "inputs", {"axis": 1}),
        ("Cast", ["inputs"], "features", {"to": TensorProto.FLOAT}),
        ("MatMul", ["features", "weights"], "product", {}),
        ("Add", ["product", "bias"], "logits", {}),
        ("Greater", ["logits", "zero"], "yes", {}),
        ("Cast", ["yes"], "inlining_decision", {"to": TensorProto.INT64}),
    )
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **attributes) for kind, inputs, output, attributes in nodes],
        "linear",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", 1]) for name in weights],
        [helper.make_tensor_value_info("inlining_decision", TensorProto.INT64, ["batch", 1])],
        [helper.make_tensor(name, TensorProto.FLOAT, [len(row), 1], row) for name, row in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def write_tflite(path: Path, weights: Mapping[str, float], bias: float, *, prefix: str = "action_") -> None:
    """Write a TensorFlow Lite model with the outputs `inlining_decision:0`, int64, and `logits:0`, float32."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from mlgo_gym.deploy.tosa_export import tflite_model

    model = schema.ModelT.InitFromPackedBuf(tflite_model("linear", linear(weights, bias)))
    graph = model.subgraphs[0]
    logits = graph.operators[-4].outputs[0]  # a comparison and two casts follow
    graph.tensors[logits].name, graph.outputs = b"logits:0", [*graph.outputs, logits]
    for tensor in graph.tensors:
        tensor.name = tensor.name.replace(b"action_", prefix.encode())
    model.signatureDefs = []
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


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
@pytest.mark.parametrize("observation", ["flat", "vector"])
def test_a_model_drives_an_episode(
    make: Make, middle: float, observation: str, inline: CompilerEnv, corpus: Path
) -> None:
    weights = {"callee_users": 0.0, "cost_estimate": -1.0}
    spec = make(weights, middle)
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(spec, env), "calls")
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}
    # Inputs that TF-Agents needs for training are zero.
    spec = make({"cost_estimate": 0.0, "step_type": 1.0, "reward": 1.0, "discount": 1.0}, 1)
    assert set(play(inline, load_policy(spec, inline), "calls")[0]) == {1}


@pytest.mark.libraries
def test_a_model_adds_no_threads(make: Make, inline: CompilerEnv) -> None:
    def threads() -> int:
        return sum(1 for _ in Path("/proc/self/task").iterdir())

    policies = [load_policy(make({"cost_estimate": -1.0}, 0.0), inline)]  # the library may have a thread of its own
    before = threads()
    policies += [load_policy(make({"cost_estimate": -1.0}, 0.0), inline) for _ in range(3)]
    for policy in policies:
        play(inline, policy, "calls")
    assert threads() == before


def model(compute: Callable[[int, Sequence[Any]], Any], *inputs: ModelTensor, output: ModelTensor) -> ForeignModel:
    return ForeignModel(Path("model"), list(inputs), [output], compute)


def tensor(name: str, size: int, kind: str = "float32") -> ModelTensor:
    return ModelTensor(name, (1, size), np.dtype(kind))


def test_inputs_are_filled_by_their_names_and_the_output_decides(inline: CompilerEnv, evict: CompilerEnv) -> None:
    """A model of the test stands for a runtime."""
    observation, info = inline.reset(seed=0)
    seen: list[Any] = []

    def compute(_output: int, arrays: Sequence[Any]) -> Any:
        seen[:] = arrays
        return np.array([[1]])

    width, action = len(inline.feature_names), tensor("action", 1, "int64")
    cost = observation[inline.feature_names.index("cost_estimate")]
    for inputs, expected in (
        ([tensor("cost_estimate", 1, "int64"), tensor("reward", 1)], [np.array([[int(cost)]]), np.zeros((1, 1))]),
        ([tensor("anything", width)], [observation.reshape(1, width)]),
    ):
        policy = ForeignPolicy(inline, "onnx", model(compute, *inputs, output=action), inputs)
        assert policy.act(observation, info) == 1
        assert [array.tolist() for array in seen] == [array.tolist() for array in expected]
        assert [array.dtype for array in seen] == [entry.dtype for entry in inputs]
    columns, names = int(evict.action_space.n), evict.feature_names  # type: ignore[attr-defined] # discrete
    observation, info = evict.reset(seed=0)
    both = [tensor(name, columns) for name in ("mask", "use_def_density")]
    logits = model(lambda _, arrays: arrays[1] - 2 * (arrays[0] == 0), *both, output=tensor("logits", columns))
    weights = observation["observations"][[names.index(f"use_def_density[{column}]") for column in range(columns)]]
    legal = np.flatnonzero(info["action_mask"])
    assert ForeignPolicy(evict, "onnx", logits, both).act(observation, info) == legal[weights[legal].argmax()]
    observation, info = inline.reset(seed=0)
    with pytest.raises(PolicyError, match=r"missing: action_mask \[1, 1\]"):
        ForeignPolicy(inline, "onnx", model(compute, output=action), [tensor("mask", 1)])
    # Two outputs are logits, one float is the logit of yes, which has a unit.
    for values, unit, wanted in (
        ([0.2, 0.1], 1.0, 0),
        ([0.1, 0.2], 1.0, 1),
        ([-4.0], 2.0, 0),
        ([4.0], 2.0, 1),
    ):
        logits = model(lambda *_, values=values: np.array([values]), output=tensor("logits", len(values)))
        assert ForeignPolicy(inline, "onnx", logits, [], unit=unit).act(observation, info) == wanted


class Runtime:
    """Stands for ONNX Runtime and for LiteRT, with a model that inlines calls of a cost below `middle`."""

    def __init__(self, middle: float, extent: int | str, output: str) -> None:
        self.middle, self.inputs, self.output = middle, dict[Any, Any](), output
        names = ("cost_estimate", "float"), ("reward", "double")
        self.details = [SimpleNamespace(name=name, shape=[extent, 1], type=f"tensor({kind})") for name, kind in names]
        logits = SimpleNamespace(name="logits", shape=[extent, 2], type="tensor(float)")
        self.get_inputs, self.get_outputs = lambda: self.details, lambda: [logits]

    def logits(self, cost_estimate: Any, reward: Any) -> list[Any]:
        assert (cost_estimate.dtype, reward.dtype, reward.any()) == (np.float32, np.float64, False)
        return [np.concatenate([0 * cost_estimate, self.middle - cost_estimate], axis=1)]

    def onnx(self, data: bytes, options: Any, providers: list[str]) -> Any:
        threads = options.intra_op_num_threads, options.inter_op_num_threads
        assert (data, threads, providers) == (b"a model", (1, 1), ["CPUExecutionProvider"])
        self.run = lambda names, inputs: self.logits(**inputs) if names == ["logits"] else []
        return self

    def litert(self, model_content: bytes, num_threads: int) -> Any:
        assert (model_content, num_threads) == (b"a model", 1)
        shape, double = np.array([1, 1]), np.float64
        inputs = [
            {"name": "serving_default_action_cost_estimate:0", "shape": shape, "dtype": np.float32, "index": 5},
            {"name": "reward", "shape": shape, "dtype": double, "index": 3},
        ]
        outputs = [
            {"name": "other:0", "shape": shape, "dtype": double, "index": 2},
            {"name": self.output, "shape": np.array([1, 2]), "dtype": np.float32, "index": 1},
        ][0 if self.output else 1 :]
        return SimpleNamespace(
            allocate_tensors=lambda: None, get_input_details=lambda: inputs, get_output_details=lambda: outputs,
            set_tensor=self.inputs.__setitem__, invoke=lambda: None,
            get_tensor=lambda index: self.logits(self.inputs[5], self.inputs[3])[0] if index == 1 else None,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "extent", "output"),
    [("onnx", 1, ""), ("onnx", "rows", ""), ("tflite", 1, "decision:1"), ("tflite", 1, "decision"), ("tflite", 1, "")],
)
def test_a_runtime_gets_named_inputs(
    kind: str,
    extent: int | str,
    output: str,
    middle: float,
    inline: CompilerEnv,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = Runtime(middle, extent, output)
    onnx = SimpleNamespace(SessionOptions=SimpleNamespace, InferenceSession=runtime.onnx)
    monkeypatch.setitem(sys.modules, "onnxruntime", onnx)
    litert = SimpleNamespace(Interpreter=runtime.litert)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", litert)
    (tmp_path / f"model.{kind}").write_bytes(b"a model")
    if output:
        (tmp_path / "output_spec.json").write_text('[{"tensor_spec": {"name": "decision", "port": 1}}]')
    policy = load_policy(f"{kind}:{tmp_path / f'model.{kind}'}", inline)
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert play(inline, policy, "calls")[0] == expected


def test_advice_in_another_unit_becomes_an_action(priority: CompilerEnv) -> None:
    observation, info = priority.reset(seed=0)
    advice = model(lambda *_: np.array([[0.5]]), output=tensor("advice", 1))
    for unit, action in ((1.0, 0.5), (2.0, 0.25), (4.0, 0.125)):
        policy = ForeignPolicy(priority, "tflite", advice, [], unit=unit)
        assert np.ravel(policy.act(observation, info)).tolist() == [action]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.array([[2]]), r"expected an action of Discrete\(2\), got 2 from the policy 'onnx'"),
        (np.array([[1, 1]]), "expected 1 numbers of action from model, got 2"),
        (None, "the model model cannot be run: no memory; use another model"),
    ],
)
def test_a_model_that_fails_or_gives_another_output_is_refused(inline: CompilerEnv, result: Any, message: str) -> None:
    def compute(*_: Any) -> Any:
        if result is None:
            raise RuntimeError("no memory")
        return result

    policy = ForeignPolicy(inline, "onnx", model(compute, output=tensor("action", 1, "int64")), [])
    with pytest.raises(PolicyError, match=message):
        policy.act(*inline.reset(seed=0))


@pytest.mark.libraries
def test_unusable_models_are_refused(make: Make, inline: CompilerEnv) -> None:
    spec = make({"magic": 1.0, "cost_estimate": 1.0, "more": 1.0}, 0)
    with pytest.raises(PolicyError, match=r"needs 2 features that are missing: magic \[[1, ]+\], more \[[1, ]+\]; got"):
        load_policy(spec, inline)
    Path(spec.partition(":")[2]).write_bytes(b"no model at all")
    with pytest.raises(PolicyError, match="expected a"):
        load_policy(spec, inline)


@pytest.mark.libraries
def test_the_output_that_its_specification_names_decides(inline: CompilerEnv, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    write_tflite(tmp_path / "model.tflite", {"cost_estimate": 0.0}, 2, prefix="serving_default_action_")
    policy, spec = f"tflite:{tmp_path}", tmp_path / "output_spec.json"
    with pytest.raises(PolicyError, match="names one of inlining_decision:0, logits:0, got no such file"):
        load_policy(policy, inline)
    for output in ("inlining_decision", "logits"):
        spec.write_text(json.dumps([{"tensor_spec": {"name": output, "port": 0}}]))
        assert set(play(inline, load_policy(policy, inline), "calls")[0]) == {1}
    for text, message in (
        ("{}", "list of outputs"),
        (
            '[{"tensor_spec": {"name": "other"}}]',
            "expected one of the outputs .* logits:0, got other:0",
        ),
    ):
        spec.write_text(text)
        with pytest.raises(PolicyError, match=message):
            load_policy(policy, inline)
