"""Programs that run to their end: within limits, and without the right to write."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mlgo_gym.errors import ToolchainError
from mlgo_gym.session.process.bounded_run import run_bounded
from mlgo_gym.session.process.confinement import confinement_support
from mlgo_gym.session.process.limits import Limits
from tests.traces import children

MARK = f"0.{os.getpid():07}"
"""An argument of `sleep` that identifies the processes of this test."""

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_output_and_exit_status_are_returned(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('no', file=sys.stderr); sys.exit(3)"
    answer = run_bounded(python(code), folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"{tmp_path}\n", "no\n")


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
def test_it_writes_only_into_writable_folders(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    code = "import sys; open(sys.argv[1], 'w').write('x')"
    allowed, other = (str(tmp_path / name) for name in ("allowed/file", "file"))
    assert run_bounded([*python(code), allowed], writable=(tmp_path / "allowed",)).returncode == 0
    assert "PermissionError" in run_bounded([*python(code), other], writable=(tmp_path / "allowed",)).stderr
    assert run_bounded([*python(code), other], writable=None).returncode == 0


def test_a_program_that_never_exits_is_killed() -> None:
    before = children()
    with pytest.raises(ToolchainError, match=r"did not finish within 0\.2 s"):
        run_bounded(python("import signal; signal.pause()"), timeout=0.2)
    assert children() <= before


def test_a_program_beyond_its_limits_is_killed_with_a_message() -> None:
    endless = run_bounded(python("while True: pass"), limits=Limits(cpu=1))
    assert endless.stderr.splitlines()[0] == "expected clang to need at most 1 s of CPU time, got more; raise cpu_limit"
    large = "import sys\ntry: bytearray(1 << 40)\nexcept MemoryError: sys.exit('out of memory')"
    assert (
        "at most 2 GiB of memory, got more; raise memory_limit"
        in run_bounded(python(large), limits=Limits(memory=2)).stderr
    )


def test_its_children_are_killed_and_not_waited_for() -> None:
    assert run_bounded(["sh", "-c", f"sleep 1000 {MARK} & echo done"]).stdout == "done\n"
    wait_until_all_have_ended()
    with pytest.raises(ToolchainError, match="the test did not finish within"):
        run_bounded(["sh", "-c", f"sleep 1000 {MARK} & wait"], timeout=0.2, name="the test")
    wait_until_all_have_ended()


def processes_of_this_test() -> int:
    """Return the number of running processes of this test."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += MARK.encode() in path.read_bytes().split(b"\0")
    return found


def wait_until_all_have_ended() -> None:
    """Wait until killed processes have exited."""
    deadline = time.monotonic() + 10
    while processes_of_this_test():
        assert time.monotonic() < deadline


def test_it_is_killed_with_its_host() -> None:
    words = ["sh", "-c", f"read go; sleep 1000 {MARK} & wait"]
    run = f"run_bounded({words}, writable=None, first_line='go\\n')"
    code = f"from mlgo_gym.session.process.bounded_run import run_bounded; {run}"
    with subprocess.Popen([sys.executable, "-c", code]) as host:
        while not processes_of_this_test():
            assert host.poll() is None
        host.kill()
    wait_until_all_have_ended()


def test_a_program_that_writes_without_end_is_killed() -> None:
    with pytest.raises(ToolchainError, match="expected at most 64 MiB of output from clang"):
        run_bounded(["sh", "-c", "yes"])


def test_one_that_closes_its_streams_is_waited_for() -> None:
    answer = run_bounded(python("import os, time; os.close(1); os.close(2); time.sleep(0.1); os._exit(5)"))
    assert (answer.returncode, answer.stdout) == (5, "")


def test_its_first_line_arrives_when_the_limits_hold() -> None:
    code = "import resource; input(); print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 30)"
    assert run_bounded(python(code), limits=Limits(memory=3), first_line="go\n").stdout == "3\n"


def test_an_attended_descriptor_is_read_meanwhile() -> None:
    mine, theirs = os.pipe()
    received = []

    def hear() -> None:
        received.append(os.read(mine, 100))

    run_bounded(["sh", "-c", f"echo one > /proc/{os.getpid()}/fd/{theirs}"], writable=None, attended={mine: hear})
    os.close(mine)
    os.close(theirs)
    assert received == [b"one\n"]


@pytest.mark.parametrize(
    ("words", "limits", "expected"),
    [
        ("clang-19: error: unable to execute command: CPU time limit exceeded", Limits(cpu=5), "at most 5 s"),
        ("ld: memory exhausted", Limits(memory=2), "at most 2 GiB of memory"),
        ("unable to execute command: File size limit exceeded", Limits(memory=2), "write at most 2 GiB"),
    ],
)
def test_a_limit_that_a_linker_exceeded_is_found_in_the_drivers_message(
    words: str, limits: Limits, expected: str
) -> None:
    answer = run_bounded(["sh", "-c", f"echo '{words}' >&2; exit 1"], limits=limits, name="the linker")
    first, second = answer.stderr.splitlines()
    assert first.startswith("expected the linker to")
    assert expected in first
    assert second == words


def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(ToolchainError, match="cannot start '/nowhere'"):
        run_bounded(["/nowhere"])
