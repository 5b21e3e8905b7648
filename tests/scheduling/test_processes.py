"""A worker process does not outlive the process that started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.traces import ends_within

PROGRAM = """
import multiprocessing, os, signal
from mlgo_gym.scheduling.processes import die_with_parent

def work(pipe):
    die_with_parent()
    pipe.send(os.getpid())
    signal.pause()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=work, args=(theirs,)).start()
    print(ours.recv(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == -9
    assert ends_within(int(result.stdout), 10)
