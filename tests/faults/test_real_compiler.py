"""A real clang that crashes, stalls or loses its host, in every task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.testing import running_compile
from tests.conftest import MakeBitcode
from tests.faults.hosts import LONG, SHORT
from tests.sampling import one_of_each
from tests.traces import children, ends_within

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


def make(task: str, mixed: str, kind: str) -> CompilerEnv:
    options = {"timeout": SHORT if kind == "timeout" else LONG}
    env = gym.make(f"mlgo/{task}-v0", corpus=mixed, max_decisions=5, compile_options=options).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


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


@pytest.mark.parametrize(("task", "number", "kind"), one_of_each(cases(FAULTS.items()), *TASK_AND_SIGNAL, name=name_of))
def test_in_an_environment(task: str, number: int, kind: str, mixed: str) -> None:
    env = make(task, mixed, kind)
    _, info = env.reset()
    *_, info = env.step(info["default_action"])
    hit(running_compile(env).pid, number)
    _, _, terminated, truncated, info = env.step(info["default_action"])
    assert (terminated, truncated) == (False, True)
    assert info["error"]["kind"] == kind
    assert "error" not in play(env, env.reset()[1])
    env.close()


@pytest.mark.parametrize(("task", "number", "kind"), one_of_each(cases(TWO), *TASK_AND_SIGNAL, name=name_of))
def test_in_a_fork_while_the_original_continues(task: str, number: int, kind: str, mixed: str) -> None:
    env = make(task, mixed, kind)
    _, info = env.reset()
    copied, again = env.fork(), env.fork()
    hit(running_compile(copied).pid, number)
    assert copied.step(info["default_action"])[-1]["error"]["kind"] == kind
    hit(running_compile(env).pid, signal.SIGSEGV)
    assert env.step(info["default_action"])[-1]["error"]["kind"] == "signal"
    assert "error" not in play(again, info)
    for works in (copied, env, again):
        assert "error" not in play(works, works.reset()[1])
        works.close()


HOST = """
import sys
import gymnasium as gym, mlgo_gym
env = gym.make("mlgo/{task}-v0", corpus={corpus!r}).unwrapped
env.reset()
copied = env.fork()
envs = gym.make_vec("mlgo/{task}-v0", 2, corpus={corpus!r}, prefetch=0)
envs.reset()
print("ready", flush=True)
sys.stdin.read()
"""

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("task", "number"),
    [
        ("Inline", signal.SIGKILL),
        pytest.param("Inline", signal.SIGTERM, marks=slow),
        pytest.param("Inline", signal.SIGINT, marks=slow),
        pytest.param("RegAllocEvict", signal.SIGKILL, marks=slow),
    ],
)
def test_no_clang_outlives_its_host(task: str, number: int, mixed: str) -> None:
    command = [sys.executable, "-c", HOST.format(task=task, corpus=mixed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        pids = children(host.pid)
        host.send_signal(number)
        assert host.wait(LONG) == -number
    assert len(pids) == 4
    for pid in pids:
        assert ends_within(pid, 10)
