"""A real clang that crashes, stalls or loses its host, in every task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.testing import running_compile
from tests.conftest import MakeBitcode
from tests.faults.hosts import LONG, SHORT
from tests.traces import children, ends_within

pytestmark = pytest.mark.usefixtures("nothing_is_left")

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> str:
    """A module with decisions of every kind."""
    return str(make_bitcode("mixed.c"))


def hit(env: CompilerEnv, number: int) -> None:
    """Send a signal that kills the compiler, and wait until it has exited; or one that stops it."""
    pid = running_compile(env).pid
    os.kill(pid, number)
    if number != signal.SIGSTOP:
        assert ends_within(pid, 10)


def play(env: CompilerEnv, info: dict[str, Any]) -> dict[str, Any]:
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    return info


@pytest.mark.parametrize(
    ("task", "number", "kind"),
    [
        ("Inline", signal.SIGSEGV, "signal"),
        ("RegAllocEvict", signal.SIGABRT, "signal"),
        ("RegAllocPriority", signal.SIGKILL, "signal"),
        ("Joint", signal.SIGSEGV, "signal"),
        ("Inline", signal.SIGSTOP, "timeout"),
        pytest.param("RegAllocEvict", signal.SIGSTOP, "timeout", marks=slow),
        pytest.param("RegAllocPriority", signal.SIGSTOP, "timeout", marks=slow),
        pytest.param("Joint", signal.SIGSTOP, "timeout", marks=slow),
    ],
)
def test_a_signal_ends_one_episode_alone(task: str, number: int, kind: str, mixed: str) -> None:
    options = {"timeout": SHORT if kind == "timeout" else LONG}
    env = gym.make(f"mlgo/{task}-v0", corpus=mixed, max_decisions=5, compile_options=options).unwrapped
    assert isinstance(env, CompilerEnv)
    _, info = env.reset()
    *_, info = env.step(info["default_action"])
    copied, again = env.fork(), env.fork()
    for failing, sent, expected in ((copied, number, kind), (env, signal.SIGSEGV, "signal")):
        hit(failing, sent)
        _, _, terminated, truncated, failed = failing.step(info["default_action"])
        assert (terminated, truncated) == (False, True)
        assert failed["error"]["kind"] == expected
    assert "error" not in play(again, info)
    for works in (env, copied, again):
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
