"""Warm resets: episodes from copies of waiting clangs are the episodes of fresh ones."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.errors import MlgoWarning
from tests.conftest import PROGRAMS, MakeBitcode
from tests.fakes.compiles import running_compile
from tests.fakes.drive import finish
from tests.traces import children

pytestmark = [
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.skipif(not snapshot_support()[0], reason=f"no snapshots here: {snapshot_support()[1]}"),
]


@pytest.fixture(scope="module")
def pressure(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("pressure.c")


def play(env: CompilerEnv) -> tuple[list[Any], float]:
    first, info = env.reset(seed=0)
    steps = finish(env, info)
    observations = (first, *(step.observation for step in steps))
    return [observation["observations"].tolist() for observation in observations], steps[-1].reward


def test_a_waiting_clang_that_was_killed_is_replaced(pressure: Path) -> None:
    others = children()
    with RegAllocEvictEnv(corpus=str(pressure), compile_options={"fork_resets": True}) as env:
        wanted = play(env)
        [waiting] = children() - others
        os.kill(waiting, signal.SIGKILL)
        with pytest.warns(MlgoWarning, match=r"could not be copied, .* fresh one: .*(SIGKILL|exited during the copy)"):
            assert play(env) == wanted


@pytest.mark.parametrize("first", ["fork", "original"])
def test_waiting_clangs_stay_until_the_original_and_each_fork_are_closed(first: str, pressure: Path) -> None:
    others = children()
    env = RegAllocEvictEnv(corpus=str(pressure), compile_options={"fork_resets": True})
    env.reset()
    [waiting] = children() - others - {running_compile(env).pid}
    fork = env.fork()
    closed, left = (fork, env) if first == "fork" else (env, fork)
    closed.close()
    assert children() - others == {waiting, running_compile(left).pid}
    left.reset()
    assert running_compile(left).fork_method == "snapshot"
    left.close()
    assert children() == others


def test_at_most_eight_clangs_wait(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    text = (PROGRAMS / "pressure.c").read_text()
    for number in range(10):
        source = tmp_path / f"{number}.c"
        source.write_text(f"{text}\nint variant_{number} = {number};\n")
        shutil.copy(make_bitcode(source), tmp_path / f"{number}.bc")
    others = children()
    with RegAllocEvictEnv(corpus=str(tmp_path), compile_options={"fork_resets": True}) as env:
        methods = []
        for name in (*map(str, range(10)), "9", "0"):
            env.reset(options={"module": name})
            methods.append(running_compile(env).fork_method)
        assert len(children() - others) == 9  # one runs
    assert methods == [None] * 10 + ["snapshot", None]
