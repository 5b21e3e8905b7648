"""The native code and the exports of a policy for evictions decide as the policy does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlgo_clang.compiler import compiler_command
from mlgo_clang.header import Tensor
from mlgo_clang.native import _offset
from mlgo_gym.cli.application import application
from mlgo_gym.deploy.native_library import build_native_library
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.session_policy import decision_info
from mlgo_gym.session.protocol.decision import Decision
from tests.policies.test_eviction import eviction_network, shifted


def tensors(header: LogHeader) -> dict[str, Tensor]:
    """Return the tensors of a header as `mlgo_clang` reads them."""
    fields: Any = header.dtype.fields or {}
    kinds = {"int64": "int64_t", "float32": "float"}
    return {spec.name: Tensor(fields[spec.name][1], spec.size, kinds[spec.dtype.name]) for spec in header.features}


@pytest.mark.parametrize(("margin", "deviates"), [(0.0, True), (1e9, False)])
def test_decisions_are_equal(margin: float, deviates: bool, tmp_path: Path) -> None:
    env = RegAllocEvictEnv(corpus="builtin")
    path = tmp_path / "evict.safetensors"
    shifted(eviction_network(), margin).save(path)
    library = build_native_library(path, tmp_path, compiler_command("bundled", "gcc"))
    native = ctypes.CDLL(str(library))
    native.mlgo_decide.restype = ctypes.c_int64
    native.mlgo_decide.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int32))
    assert ctypes.c_int32.in_dll(native, "mlgo_choices").value == env.action_space.n  # type: ignore[attr-defined]
    words = (ctypes.c_char_p.in_dll(native, "mlgo_inputs").value or b"").decode().split()
    known = tensors(env.task.headers[0])
    offsets = (ctypes.c_int32 * len(words))(*(_offset(known, word) for word in words))
    policy = load_policy(f"mlp:{path}", env)
    compared = deviations = 0
    for decision, chosen in decisions(env, policy):
        assert native.mlgo_decide(decision.payload, 0, offsets) == chosen
        deviations += chosen != env.task.default_action(decision)
        compared += 1
    assert compared > 30
    assert (deviations > compared / 10) == deviates


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
    arguments = ["export", "tflite", "--policy", f"mlp:{path}", "--output", str(folder)]
    assert CliRunner().invoke(application, arguments).exit_code == 0
    network, model = (load_policy(policy, env) for policy in (f"mlp:{path}", f"tflite:{folder}"))
    compared = deviations = 0
    for decision, chosen in decisions(env, network):
        assert choose(env, model, decision) == chosen
        deviations += chosen != env.task.default_action(decision)
        compared += 1
    assert compared > 30
    assert deviations > compared / 10


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("onnx", (), "expected a policy of inlining"),
        ("tflite", ("--level", "Os"), "expected --level for a policy of inlining, .* omit --level$"),
        ("tflite", ("--keep-default",), "expected --keep-default for a policy of inlining, .* omit --keep-default$"),
    ],
)
def test_an_export_that_does_not_fit_says_so(kind: str, options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    path = tmp_path / "evict.safetensors"
    eviction_network().save(path)
    arguments = ["export", kind, "--policy", f"mlp:{path}", "--output", str(tmp_path / "model"), *options]
    result = CliRunner().invoke(application, arguments)
    assert isinstance(result.exception, MlgoError)
    assert re.search(message, str(result.exception))
