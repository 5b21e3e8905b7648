"""A compiler that is merely run: it ends in time, takes no more than it may, and writes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mlgo_gym.errors import ToolchainError
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.session.confinement import confinement_support
from mlgo_gym.session.limits import Limits
from tests.traces import children

MARK = f"0.{os.getpid():07}"
"""An argument of `sleep` that tells our processes from those of others, who may run the same test."""

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_what_it_says_and_how_it_ends_is_returned(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('no', file=sys.stderr); sys.exit(3)"
    answer = run_bounded(python(code), folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"{tmp_path}\n", "no\n")


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
def test_it_writes_only_where_it_may(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    code = "import sys; open(sys.argv[1], 'w').write('x')"
    allowed, other = (str(tmp_path / name) for name in ("allowed/file", "file"))
    assert run_bounded([*python(code), allowed], writable=(tmp_path / "allowed",)).returncode == 0
    assert "PermissionError" in run_bounded([*python(code), other], writable=(tmp_path / "allowed",)).stderr
    assert run_bounded([*python(code), other], writable=None).returncode == 0


def test_one_that_never_ends_is_killed() -> None:
    before = children()
    with pytest.raises(ToolchainError, match=r"was to finish within 0\.2 s and did not"):
        run_bounded(python("import signal; signal.pause()"), timeout=0.2)
    assert children() <= before


def test_one_that_takes_too_much_is_ended_with_the_reason() -> None:
    endless = run_bounded(python("while True: pass"), limits=Limits(processor=1))
    assert (
        endless.stderr.splitlines()[0] == "clang was to need at most 1 s of processor time (cpu_limit), and needed more"
    )
    large = "import sys\ntry: bytearray(1 << 40)\nexcept MemoryError: sys.exit('out of memory')"
    assert "at most 2 GiB of memory (memory_limit)" in run_bounded(python(large), limits=Limits(memory=2)).stderr


def test_what_it_leaves_behind_ends_with_it_and_is_not_waited_for() -> None:
    assert run_bounded(["sh", "-c", f"sleep 1000 {MARK} & echo done"]).stdout == "done\n"
    wait_until_all_have_ended()
    with pytest.raises(ToolchainError, match="the test was to finish within"):
        run_bounded(["sh", "-c", f"sleep 1000 {MARK} & wait"], timeout=0.2, name="the test")
    wait_until_all_have_ended()


def processes_of_this_test() -> int:
    """Return how many processes there are that only this test starts."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += MARK.encode() in path.read_bytes().split(b"\0")
    return found


def wait_until_all_have_ended() -> None:
    """Wait for those that were killed a moment ago."""
    deadline = time.monotonic() + 10
    while processes_of_this_test():
        assert time.monotonic() < deadline


def test_it_ends_with_its_host_though_that_is_killed() -> None:
    words = ["sh", "-c", f"read go; sleep 1000 {MARK} & wait"]
    code = (
        f"from mlgo_gym.session.bounded_run import run_bounded; run_bounded({words}, writable=None, first_line='go\\n')"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as host:
        while not processes_of_this_test():
            assert host.poll() is None
        host.kill()
    wait_until_all_have_ended()


def test_a_program_that_writes_without_end_is_ended() -> None:
    with pytest.raises(ToolchainError, match="clang was to write at most 64 MiB of text"):
        run_bounded(["sh", "-c", "yes"])


def test_one_that_closes_its_streams_is_waited_for() -> None:
    answer = run_bounded(python("import os, time; os.close(1); os.close(2); time.sleep(0.1); os._exit(5)"))
    assert (answer.returncode, answer.stdout) == (5, "")


def test_its_first_line_comes_when_it_is_limited() -> None:
    code = "import resource; input(); print(resource.getrlimit(resource.RLIMIT_AS)[0] >> 30)"
    assert run_bounded(python(code), limits=Limits(memory=3), first_line="go\n").stdout == "3\n"


def test_a_descriptor_is_attended_to_meanwhile() -> None:
    mine, theirs = os.pipe()
    said = []

    def hear() -> None:
        said.append(os.read(mine, 100))

    run_bounded(["sh", "-c", f"echo one > /proc/{os.getpid()}/fd/{theirs}"], writable=None, attended={mine: hear})
    os.close(mine)
    os.close(theirs)
    assert said == [b"one\n"]


@pytest.mark.parametrize(
    ("words", "limits", "expected"),
    [
        ("clang-19: error: unable to execute command: CPU time limit exceeded", Limits(processor=5), "at most 5 s"),
        ("ld: memory exhausted", Limits(memory=2), "at most 2 GiB of memory"),
        ("unable to execute command: File size limit exceeded", Limits(memory=2), "write at most 2 GiB"),
    ],
)
def test_a_driver_tells_which_limit_its_linker_met(words: str, limits: Limits, expected: str) -> None:
    answer = run_bounded(["sh", "-c", f"echo '{words}' >&2; exit 1"], limits=limits, name="the linker")
    first, second = answer.stderr.splitlines()
    assert first.startswith("the linker was to")
    assert expected in first
    assert second == words


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ToolchainError, match="/nowhere cannot be started"):
        run_bounded(["/nowhere"])
