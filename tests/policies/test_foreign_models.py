"""The policies `tflite:FILE` and `onnx:FILE`: a process for each model, no fault of which stops the host."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlgo_gym.compiler.limits import confinement_support
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import BatchedPolicy, act_batch, load_policy
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from tests.policies.episodes import play
from tests.policies.linear_models import write_onnx, write_tflite
from tests.policies.test_rules import decisions
from tests.traces import alive, ends_within

MOST = 1 << 16
HEAD = """
import os, signal, struct, sys, time
channel = int(sys.argv[2])
def receive():
    letter, size = struct.unpack("<cI", os.read(channel, 5))
    data = b""
    while len(data) < size:
        data += os.read(channel, size - len(data))
    return letter, data
def send(letter, data):
    os.write(channel, struct.pack("<cI", letter, len(data)) + data)
"""
ECHO = "while True: send(*receive())"
Start = Callable[..., ModelProcess]


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    return tmp_path / "worker.py"


@pytest.fixture
def start(worker: Path) -> Iterator[Start]:
    """Return a function that returns a process with a test's own program."""
    made: list[ModelProcess] = []

    def make(program: str, seconds: float = 20.0) -> ModelProcess:
        worker.write_text(HEAD + program)
        made.append(ModelProcess("tflite", seconds, worker))
        return made[-1]

    yield make
    for process in made:
        process.close()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("receive(); os.kill(os.getpid(), signal.SIGSEGV)", r"ended by signal 11 \(SIGSEGV\); use another model$"),
        ("sys.stderr.write('INFO: hello\\nno such thing\\n'); sys.exit(3)", "exit status 3; .*: no such thing$"),
        ("receive(); send(b'O', bytes(70_000)); time.sleep(60)", "at most 65,536 bytes, got 70,000"),
        ("receive(); raise MemoryError", "needs more than 4 GiB of memory"),
    ],
)
def test_a_failed_process_is_an_error_and_another_is_started(
    start: Start, worker: Path, program: str, message: str
) -> None:
    process = start(program)
    with pytest.raises(ModelProcessError, match=message):
        process.request(b"M", [b"model"], MOST)
    assert (process.pid, process.loaded) == (0, None)
    worker.write_text(HEAD + ECHO)
    assert process.request(b"M", [b"model"], MOST) == (b"M", b"model")


def test_a_process_without_an_answer_in_time_is_stopped(start: Start) -> None:
    for program, size in (("time.sleep(60)", 1_000_000), ("receive(); os.write(channel, b'D'); receive()", 9)):
        process = start(program, seconds=0.3)
        with pytest.raises(ModelProcessError, match=r"its process gave no answer within 0.3 s and was stopped"):
            process.request(b"M", [bytes(size)], MOST)
        assert process.pid == 0


@pytest.mark.skipif(not confinement_support()[0], reason="this machine cannot keep a process from writing")
def test_it_cannot_write_files(start: Start, tmp_path: Path) -> None:
    process = start(f"""
receive()
try:
    open({str(tmp_path / "written")!r}, "w")
except OSError as error:
    send(b"E", type(error).__name__.encode())
receive()
""")
    assert process.request(b"M", [], MOST) == (b"E", b"PermissionError")


def test_malformed_descriptions_and_outputs_are_refused(start: Start, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.write_bytes(b"x")
    bad = '[[["a", [1], "int64"]], [["b", [-1], "int64"]]]'
    for text in ("{", "[]", "[[], []", "[[[1]], []]", "[" * 9999, bad, "\udcff"):
        sent = text.encode(errors="surrogateescape")
        process = start(f"receive(); send(b'D', {sent!r}); receive()")
        with pytest.raises(PolicyError, match="its process sent no description"):
            ForeignModel("tflite", model, process)
    sent = b'[[], [["b", [2], "int64"]]]'
    process = start(f"receive(); send(b'D', {sent!r}); receive(); send(b'O', bytes(8)); receive()")
    with pytest.raises(PolicyError, match=r"expected 16 bytes of b from .*, got 8"):
        ForeignModel("tflite", model, process).run(0, [])


def test_after_a_ctrl_c_no_request_receives_an_older_answer(start: Start) -> None:
    process = start("""
while True:
    letter, data = receive()
    if data == b"interrupt":
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(0.2)
    send(letter, data)
""")
    with pytest.raises(KeyboardInterrupt):
        process.request(b"M", [b"interrupt"], MOST)
    assert process.request(b"M", [b"after"], MOST) == (b"M", b"after")


def test_it_ends_with_its_object_and_with_a_killed_host(start: Start, worker: Path) -> None:
    start(ECHO)
    process = ModelProcess("tflite", worker=worker)
    process.request(b"M", [], MOST)
    pid = process.pid
    assert alive(pid)
    del process
    gc.collect()
    assert not alive(pid)
    program = f"""
import os, pathlib, signal
from mlgo_gym.policies.model_process import ModelProcess
process = ModelProcess("tflite", worker=pathlib.Path({str(worker)!r}))
process.request(b"M", [], 9)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    host = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ends_within(int(host.stdout), 10)


DECIDES = [{"logging_name": "inlining_decision", "tensor_spec": {"name": "inlining_decision", "port": 0}}]
LIBRARIES = {"tflite": "ai_edge_litert", "onnx": "onnxruntime"}
Make = Callable[[dict[str, float], float], str]


@pytest.fixture(params=LIBRARIES)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of model whose libraries are installed."""
    for library in (LIBRARIES[request.param], *(["onnx"] if request.param == "onnx" else [])):
        pytest.importorskip(library, reason=f"{library} is not installed")
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Make:
    """Return a function that writes a linear model and returns the policy's specification."""

    def write(weights: dict[str, float], bias: float, **batch: bool) -> str:
        path = tmp_path / f"model.{kind}"
        if kind == "onnx":
            write_onnx(path, weights, bias, **batch)
        else:
            write_tflite(path, weights, bias)
            (tmp_path / "output_spec.json").write_text(json.dumps(DECIDES))
        return f"{kind}:{path}"

    return write


@pytest.mark.libraries
@pytest.mark.parametrize("observation", ["flat", "vector"])
def test_a_model_drives_an_episode(
    make: Make, kind: str, middle: float, observation: str, inline: CompilerEnv, corpus: Path
) -> None:
    weights = {"callee_users": 0.0, "cost_estimate": -1.0}
    spec = make(weights, middle)
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "observation": observation})
    actions, _ = play(env, load_policy(spec, env), "calls")
    expected, _ = play(inline, load_policy(f"threshold:{middle}", inline), "calls")
    assert actions == expected
    assert set(actions) == {0, 1}
    observations, infos = decisions(inline, "calls")
    for batch in ({}, {"batch": True} if kind == "onnx" else {}):
        policy = load_policy(make(weights, middle, **batch), inline)
        assert isinstance(policy, BatchedPolicy) is (kind == "onnx")
        alone = [policy.act(observation, info) for observation, info in zip(observations, infos, strict=True)]
        assert act_batch(policy, observations, infos) == alone
        assert set(alone) == {0, 1}
    # Inputs that TF-Agents needs for training are zero.
    spec = make({"cost_estimate": 0.0, "step_type": 1.0, "reward": 1.0, "discount": 1.0}, 1)
    assert set(play(inline, load_policy(spec, inline), "calls")[0]) == {1}


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
