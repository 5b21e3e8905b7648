"""A real clang that crashes, stalls or loses its host, in every task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.conftest import MakeBitcode
from tests.fakes import drive
from tests.faults.hosts import LONG, SHORT, set_timeout
from tests.sampling import one_of_each
from tests.traces import ends_within
from tests.vector.stepping import clang_of

pytestmark = pytest.mark.usefixtures("nothing_is_left")

TASKS = ("Inline", "RegAllocEvict", "RegAllocPriority", "Joint")

FAULTS = {signal.SIGSEGV: "signal", signal.SIGABRT: "signal", signal.SIGKILL: "signal", signal.SIGSTOP: "timeout"}
TWO = [(signal.SIGSEGV, "signal"), (signal.SIGSTOP, "timeout")]

Case = tuple[str, int, str]
TASK_AND_SIGNAL = (itemgetter(0), itemgetter(1))


def cases(faults: Iterable[tuple[int, str]]) -> list[Case]:
    """Return every task with every fault."""
    return [(task, number, kind) for number, kind in faults for task in TASKS]


def name_of(case: Case) -> str:
    return f"{case[0]}-{signal.Signals(case[1]).name}"


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> str:
    """A module with decisions of every kind."""
    return str(make_bitcode("mixed.c"))


@pytest.fixture
def env(request: pytest.FixtureRequest, mixed: str) -> Iterator[CompilerEnv]:
    made = gym.make(
        f"mlgo/{request.param}-v0", corpus=mixed, max_decisions=5, compile_options={"timeout": LONG}
    ).unwrapped
    assert isinstance(made, CompilerEnv)
    yield made
    made.close()


def hit(pid: int, number: int) -> None:
    """Send a signal that kills a process, and wait until it has exited; or one that stops it."""
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
    set_timeout(env, LONG)
    info = play(env, env.reset()[1])
    assert "error" not in info


@pytest.mark.parametrize(
    ("env", "number", "kind"), one_of_each(cases(FAULTS.items()), *TASK_AND_SIGNAL, name=name_of), indirect=["env"]
)
def test_in_an_environment(number: int, kind: str, env: CompilerEnv) -> None:
    set_timeout(env, SHORT if kind == "timeout" else LONG)
    _, info = env.reset()
    *_, info = env.step(info["default_action"])
    hit(drive.clang_of(env), number)
    _, _, terminated, truncated, info = env.step(info["default_action"])
    assert (terminated, truncated) == (False, True)
    assert info["error"]["kind"] == kind
    works(env)


@pytest.mark.parametrize(
    ("env", "number", "kind"), one_of_each(cases(TWO), *TASK_AND_SIGNAL, name=name_of), indirect=["env"]
)
def test_in_a_fork_while_the_original_continues(number: int, kind: str, env: CompilerEnv) -> None:
    set_timeout(env, SHORT if kind == "timeout" else LONG)
    _, info = env.reset()
    copied = env.fork()
    set_timeout(env, LONG)
    hit(drive.clang_of(copied), number)
    assert copied.step(info["default_action"])[-1]["error"]["kind"] == kind
    again = env.fork()
    hit(drive.clang_of(env), signal.SIGSEGV)
    assert env.step(info["default_action"])[-1]["error"]["kind"] == "signal"
    assert "error" not in play(again, info)
    works(copied)
    works(env)
    copied.close()
    again.close()


@pytest.mark.parametrize(("task", "number", "kind"), one_of_each(cases(TWO), *TASK_AND_SIGNAL, name=name_of))
def test_in_a_vector_environment(task: str, number: int, kind: str, mixed: str) -> None:
    envs: CompilerVectorEnv = as_vector(
        gym.make_vec(f"mlgo/{task}-v0", 3, corpus=mixed, max_decisions=5, compile_options={"timeout": LONG}, prefetch=0)
    )
    set_timeout(envs, 2 * SHORT if kind == "timeout" else LONG)
    _, info = envs.reset(seed=0)
    hit(clang_of(envs, 1), number)
    *_, truncations, info = envs.step(info["default_action"])
    assert truncations.tolist() == [False, True, False]
    assert info["error"]["kind"][1] == kind
    set_timeout(envs, LONG)
    for _ in range(12):
        *_, truncations, info = envs.step(info["default_action"])
        assert not truncations.any()
    envs.close()


HOST = """
import os, signal, sys
import gymnasium as gym, mlgo_gym
env = gym.make("mlgo/{task}-v0", corpus={corpus!r}).unwrapped
_, info = env.reset()
copied = env.fork()
envs = gym.make_vec("mlgo/{task}-v0", 2, corpus={corpus!r})
envs.reset()
pids = [each._stepper.episode.session.pid for each in (env, copied)]
pids += [each.stepper.episode.session.pid for each in envs.unwrapped._sub_envs]
print(*pids, flush=True)
os.kill(os.getpid(), signal.{name})
"""


@pytest.mark.parametrize("task", ["Inline", pytest.param("RegAllocEvict", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_no_clang_outlives_its_host(name: str, task: str, mixed: str) -> None:
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
def stall(spec):
    def decide(data, start):
        open("asked", "w").close()
        sys.stdin.read()
        return 0
    return lambda header: decide
advised.inlining_rule = stall
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
        _, stderr = running.communicate(timeout=LONG)
    assert running.returncode == 0
    reason = {
        signal.SIGSEGV: "clang exited with status 139",  # the exit status of the driver, which catches the signal
        signal.SIGKILL: "clang exited with status -9",
        signal.SIGSTOP: "clang gave no sign of life for 0.5 s",
    }[signal.Signals(number)]
    assert stderr.startswith(
        f"mlgo-clang: warning: {source} is compiled by clang alone: {reason} while a policy decided"
    )
    assert (tmp_path / "it.o").read_bytes() == (tmp_path / "plain.o").read_bytes()
