"""A real clang that crashes, stalls or loses its host, in every task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.conftest import MakeBitcode
from tests.faults.hosts import LONG, SHORT, patience
from tests.traces import ends_within
from tests.vector.stepping import clang_of

pytestmark = pytest.mark.usefixtures("nothing_is_left")

TASKS = ("Inline", "RegAllocEvict", "RegAllocPriority", "Joint")

FAULTS = {signal.SIGSEGV: "signal", signal.SIGABRT: "signal", signal.SIGKILL: "signal", signal.SIGSTOP: "timeout"}
LATER = ("RegAllocPriority", "Joint")
"""Tasks whose slower tests are left to the long run."""

TWO = [(signal.SIGSEGV, "signal"), (signal.SIGSTOP, "timeout")]


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> str:
    """A module that raises decisions of every kind."""
    return str(make_bitcode("mixed.c"))


@pytest.fixture(params=TASKS)
def env(request: pytest.FixtureRequest, mixed: str) -> Iterator[CompilerEnv]:
    made = gym.make(f"mlgo/{request.param}-v0", corpus=mixed, max_decisions=5, timeout=LONG).unwrapped
    assert isinstance(made, CompilerEnv)
    yield made
    made.close()


def process_of(env: CompilerEnv) -> int:
    assert env._stepper is not None
    return env._stepper.episode.session.pid


def hit(pid: int, number: int) -> None:
    """Send a signal that ends a process, and wait until it has; or one that stops it."""
    os.kill(pid, number)
    if number != signal.SIGSTOP:
        assert ends_within(pid, 10)


def play(env: CompilerEnv, info: dict[str, Any]) -> dict[str, Any]:
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    return info


def works(env: CompilerEnv) -> None:
    patience(env, LONG)
    info = play(env, env.reset()[1])
    assert "error" not in info


@pytest.mark.parametrize(("number", "kind"), FAULTS.items())
def test_in_an_environment(number: int, kind: str, env: CompilerEnv) -> None:
    patience(env, SHORT if kind == "timeout" else LONG)
    _, info = env.reset()
    *_, info = env.step(info["default_action"])
    hit(process_of(env), number)
    _, _, terminated, truncated, info = env.step(info["default_action"])
    assert (terminated, truncated) == (False, True)
    assert info["error"]["kind"] == kind
    works(env)


@pytest.mark.parametrize(("number", "kind"), TWO)
def test_in_a_fork_and_the_original_goes_on(number: int, kind: str, env: CompilerEnv) -> None:
    patience(env, SHORT if kind == "timeout" else LONG)
    _, info = env.reset()
    twin = env.fork()
    patience(env, LONG)
    hit(process_of(twin), number)
    assert twin.step(info["default_action"])[-1]["error"]["kind"] == kind
    again = env.fork()
    hit(process_of(env), signal.SIGSEGV)
    assert env.step(info["default_action"])[-1]["error"]["kind"] == "signal"
    assert "error" not in play(again, info)
    works(twin)
    works(env)
    twin.close()
    again.close()


@pytest.mark.parametrize(
    ("task", "number", "kind"),
    [
        pytest.param(task, number, kind, marks=[pytest.mark.slow] if number == signal.SIGSTOP and task in LATER else [])
        for task in TASKS
        for number, kind in TWO
    ],
)
def test_in_a_vector_environment(task: str, number: int, kind: str, mixed: str) -> None:
    envs: CompilerVectorEnv = as_vector(
        gym.make_vec(f"mlgo/{task}-v0", 3, corpus=mixed, max_decisions=5, timeout=LONG, prefetch=0)
    )
    patience(envs, 2 * SHORT if kind == "timeout" else LONG)
    _, info = envs.reset(seed=0)
    hit(clang_of(envs, 1), number)
    *_, truncations, info = envs.step(info["default_action"])
    assert truncations.tolist() == [False, True, False]
    assert info["error"]["kind"][1] == kind
    patience(envs, LONG)
    for _ in range(12):
        *_, truncations, info = envs.step(info["default_action"])
        assert not truncations.any()
    envs.close()


HOST = """
import os, signal, sys
import gymnasium as gym, mlgo_gym
env = gym.make("mlgo/{task}-v0", corpus={corpus!r}).unwrapped
_, info = env.reset()
twin = env.fork()
envs = gym.make_vec("mlgo/{task}-v0", 2, corpus={corpus!r})
envs.reset()
pids = [each._stepper.episode.session.pid for each in (env, twin)]
pids += [each.stepper.episode.session.pid for each in envs.unwrapped._sub_envs]
print(*pids, flush=True)
os.kill(os.getpid(), signal.{name})
"""


@pytest.mark.parametrize("task", ["Inline", pytest.param("RegAllocEvict", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_no_clang_spins_on_when_its_host_is_gone(name: str, task: str, mixed: str) -> None:
    program = HOST.format(task=task, corpus=mixed, name=name)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=LONG * 3
    )
    assert done.returncode == -getattr(signal, name), done.stderr
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 4
    for pid in pids:
        assert ends_within(pid, 10)


STALL = """
import sys
from mlgo_clang import advised, driver
def stall(spec, level, compiler):
    def decide(data, start):
        open("asked", "w").close()
        sys.stdin.read()
        return 0
    return lambda header: decide
advised.inlining_policy = stall
sys.exit(driver.run("gcc", sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGSTOP])
def test_in_the_driver(number: int, tmp_path: Path, make_bitcode: Callable[..., Path]) -> None:
    source = Path(__file__).parents[1] / "programs" / "calls.c"
    plain = [sys.executable, "-m", "mlgo_clang", "--mlgo-policy=default", "-Oz", "-c", str(source), "-o", "plain.o"]
    subprocess.run(plain, cwd=tmp_path, check=True)
    os.mkfifo(tmp_path / "asked")
    command = [sys.executable, "-c", STALL, "--mlgo-policy=never", "--mlgo-timeout=0.5"]
    command += ["-Oz", "-c", str(source), "-o", "it.o"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        with (tmp_path / "asked").open("rb"):
            (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        hit(int(child), number)
        _, said = running.communicate(timeout=LONG)
    assert running.returncode == 0
    reason = {
        signal.SIGSEGV: "clang ended with status 139",  # the driver's, which catches it
        signal.SIGKILL: "clang ended with status -9",
        signal.SIGSTOP: "clang gave no sign of life for 0.5 s",
    }[signal.Signals(number)]
    assert said == f"mlgo-clang: warning: {source} is compiled by clang alone: {reason} while a policy answered it\n"
    assert (tmp_path / "it.o").read_bytes() == (tmp_path / "plain.o").read_bytes()
