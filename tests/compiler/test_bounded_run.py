"""Programs that run to their end: within limits, and without the right to write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.compiler.confinement import confinement_support
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.errors import ToolchainError
from tests.traces import children, ends_within

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_output_and_exit_status_are_returned_also_of_a_program_that_closes_its_streams(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('no', file=sys.stderr); sys.exit(3)"
    answer = run_bounded(python(code), folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"{tmp_path}\n", "no\n")
    answer = run_bounded(["sh", "-c", "exec >&- 2>&-; sleep 0.05; exit 5"])
    assert (answer.returncode, answer.stdout) == (5, "")
    with pytest.raises(ToolchainError, match="cannot start '/nowhere'"):
        run_bounded(["/nowhere"])


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
def test_it_writes_only_into_writable_folders(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    words = ["sh", "-c", 'echo x > "$1"', "sh"]
    allowed, other = (str(tmp_path / name) for name in ("allowed/file", "file"))
    assert run_bounded([*words, allowed], writable=(tmp_path / "allowed",)).returncode == 0
    assert "Permission denied" in run_bounded([*words, other], writable=(tmp_path / "allowed",)).stderr
    assert not Path(other).exists()
    assert run_bounded([*words, other], writable=None).returncode == 0


def test_a_program_beyond_a_limit_is_killed_with_a_message() -> None:
    before = children()
    with pytest.raises(ToolchainError, match=r"the test did not finish within 0\.2 s"):
        run_bounded(["sleep", "60"], timeout=0.2, name="the test")
    assert children() <= before
    with pytest.raises(ToolchainError, match="expected at most 64 MiB of output from clang"):
        run_bounded(["sh", "-c", "yes"])
    endless = run_bounded(["sh", "-c", "while :; do :; done"], limits=Limits(cpu=1))
    assert endless.stderr.splitlines()[0] == "expected clang to need at most 1 s of CPU time, got more; raise cpu_limit"
    large = "import sys\ntry: bytearray(1 << 40)\nexcept MemoryError: sys.exit('out of memory')"
    message = run_bounded(python(large), limits=Limits(memory=2)).stderr
    assert "at most 2 GiB of memory, got more; raise memory_limit" in message


def test_its_children_are_killed_and_not_waited_for(tmp_path: Path) -> None:
    assert ends_within(int(run_bounded(["sh", "-c", "sleep 1000 & echo $!"]).stdout), 10)
    pid = tmp_path / "pid"
    with pytest.raises(ToolchainError, match="did not finish within"):
        run_bounded(["sh", "-c", f"sleep 1000 & echo $! > {pid}; wait"], timeout=0.5, writable=None)
    assert ends_within(int(pid.read_text()), 10)


LIMITED = 'until [ "$(ulimit -v)" != unlimited ]; do :; done'
"""Commands that a program runs until its limits hold, which are set after its guard."""


def test_it_is_killed_with_its_host(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    words = ["sh", "-c", f"{LIMITED}; sleep 1000 & echo $! > {started}; wait"]
    run = f"run_bounded({words}, writable=None)"
    code = f"from mlgo_gym.compiler.bounded_run import run_bounded; {run}"
    with subprocess.Popen([sys.executable, "-c", code]) as host:
        child = int(started.read_text())
        host.kill()
    assert ends_within(child, 10)


def test_an_exceeded_limit_is_named_before_its_output() -> None:
    linked = run_bounded(["sh", "-c", "echo 'ld: memory exhausted' >&2; exit 1"], limits=Limits(memory=2), name="ld")
    first, second = linked.stderr.splitlines()
    assert first == "expected ld to need at most 2 GiB of memory, got more; raise memory_limit"
    assert second == "ld: memory exhausted"
