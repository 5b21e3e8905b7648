"""A crash of a real clang that can be repeated without this package."""

import signal
import struct
import subprocess
from pathlib import Path

import pytest

from mlgo_gym.envs import RegAllocEvictEnv
from tests.conftest import MakeBitcode
from tests.fakes.compiles import running_compile

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_clang_alone_repeats_a_crash_with_command_and_answers(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
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
