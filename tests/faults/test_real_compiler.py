"""A real clang that crashes or stalls, in every task."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import RegAllocEvictEnv
from tests.conftest import MakeBitcode
from tests.fakes.compiles import running_compile
from tests.fakes.drive import finish, run
from tests.faults.hosts import LONG, SHORT
from tests.traces import ends_within

pytestmark = pytest.mark.usefixtures("nothing_is_left")


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


@pytest.mark.parametrize(
    ("task", "number", "kind"),
    [
        ("Inline", signal.SIGSEGV, "signal"),
        ("RegAllocEvict", signal.SIGABRT, "signal"),
        ("RegAllocPriority", signal.SIGKILL, "signal"),
        ("Joint", signal.SIGSEGV, "signal"),
        ("Inline", signal.SIGSTOP, "timeout"),
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
        assert (terminated, truncated) == (expected != "timeout", expected == "timeout")
        assert failed["error"]["kind"] == expected
    assert not finish(again, info)[-1].info["error"]
    for works in (env, copied, again):
        assert not run(works)[1].info["error"]
        works.close()


def test_clang_alone_repeats_a_crash_with_the_command_and_the_answers(
    make_bitcode: MakeBitcode, tmp_path: Path
) -> None:
    """As the page of faults describes a report to LLVM: zeros follow the answers, because clang waits at their end."""
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), compile_options={"preoptimize": False})
    _, info = env.reset(seed=0)
    env.step(info["default_action"])
    # clang 20 and newer crash at the eviction of a register that must not be evicted.
    error = running_compile(env).answer(struct.pack("<q", 40))["error"]
    env.close()
    assert error["exit_status"] == -signal.SIGSEGV
    option = "-regalloc-evict-interactive-channel-base="
    command = [f"{option}answers" if word.startswith(option) else word for word in error["command"]]
    command = ["record.yaml" if word.startswith("/proc/self/fd/") else word for word in command]
    (tmp_path / "answers.in").write_bytes(bytes.fromhex(error["answers"]) + bytes(1 << 16))
    alone = subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, check=False, timeout=60)
    assert alone.returncode == -signal.SIGSEGV
