"""Networks with callee features in the driver."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_clang.programs import front_end_bitcode
from mlgo_gym.corpus.modules.builtin import PROGRAMS
from mlgo_gym.deploy.program import cc1_flags
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from tests.mlgo_clang.conftest import Run


def write(path: Path, feature: str, weight: float, bias: float) -> str:
    Network((feature,), (np.array([[weight]], np.float32),), (np.array([bias], np.float32),)).save(path)
    return f"mlp:{path}"


def text(project: Path) -> int:
    return object_sizes((project / "calls.o").read_bytes()).text


@pytest.mark.parametrize(
    "more",
    [
        (),
        pytest.param(("-g", "-Wall", "-MMD"), marks=pytest.mark.slow),
        pytest.param(("-fPIC", "-march=haswell"), marks=pytest.mark.slow),
    ],
)
def test_its_decisions_are_compiled(more: tuple[str, ...], run: Run, project: Path, tmp_path: Path) -> None:
    sizes = {}
    for name, weight, bias in (("never", 0, -1), ("always", 0, 1), ("once", -1, 0.5)):
        policy = write(tmp_path / f"{name}.safetensors", "module_decisions", weight, bias)
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", *more, "-c", "calls.c")
        assert (result.returncode, result.stderr) == (0, b"")
        sizes[name] = text(project)
    for name in ("never", "always"):
        run(f"--mlgo-policy={name}", "--mlgo-strict", "-Oz", *more, "-c", "calls.c")
        assert text(project) == sizes[name]
    assert sizes["once"] not in (sizes["never"], sizes["always"])


def test_the_smallest_of_several_may_be_its_object(run: Run, project: Path, tmp_path: Path) -> None:
    always = write(tmp_path / "always.safetensors", "callee_lines", 0, 1)
    assert run(f"--mlgo-policy={always},default", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
    several = text(project)
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    assert several == text(project)


def test_clang_compiles_alone_if_a_network_cannot_be_used(run: Run, project: Path, tmp_path: Path) -> None:
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    foreign = write(tmp_path / "foreign.safetensors", "no_such_feature", 1, 0)
    for policy, why in ((foreign, b"no_such_feature"), ("mlp:nowhere.safetensors", b"there is no such file")):
        result = run(f"--mlgo-policy={policy}", "-Oz", "-c", "calls.c")
        assert (result.returncode, why in result.stderr) == (0, True), result.stderr
        assert (project / "calls.o").read_bytes() == plain
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode != 0


def test_clang_reports_an_error_of_the_source(run: Run, project: Path, tmp_path: Path) -> None:
    (project / "calls.c").write_text("int f( {\n")
    policy = write(tmp_path / "always.safetensors", "callee_lines", 0, 1)
    result = run(f"--mlgo-policy={policy}", "-Oz", "-c", "calls.c")
    assert (result.returncode, b"calls.c:1:8: error: " in result.stderr) == (1, True), result.stderr


@pytest.mark.parametrize("policy", ["inline-oz", "inline-os"])
def test_bundled_policies_decide_as_in_an_environment(policy: str, run: Run, project: Path) -> None:
    flag = f"-{policy.partition('-')[2].capitalize()}"
    source = PROGRAMS / "c" / "lz.c"
    words = [flag, "-c", str(source)]
    compiler = compiler_command("bundled", "gcc")
    bitcode = project / "module.bc"
    bitcode.write_bytes(front_end_bitcode(compiler, words))
    env = gym.make(
        "mlgo/Inline-v0",
        corpus=str(bitcode),
        compile_options={"flags": list(cc1_flags([*compiler, *words]))},
        callee_features=True,
        error_reward=None,
    )
    decider = load_policy(policy, env)
    observation, info = env.reset()
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(decider.act(observation, info))
        over = terminated or truncated
    assert run(f"--mlgo-policy={policy}", "--mlgo-strict", *words).returncode == 0
    assert object_sizes((project / "lz.o").read_bytes()).text == info["text"] != info["baseline_text"]
    assert run(f"--mlgo-policy={policy}-fast", "--mlgo-strict", *words, "-o", "fast.o").returncode == 0
    assert object_sizes((project / "fast.o").read_bytes()).text != info["text"]


def test_decisions_on_evictions_have_no_callee(run: Run, project: Path) -> None:
    result = run("--mlgo-eviction-policy=inline-oz", "--mlgo-policy=default", "--mlgo-strict", "-Oz", "-c", "calls.c")
    assert (result.returncode, b"use a network for evictions" in result.stderr) == (1, True), result.stderr
