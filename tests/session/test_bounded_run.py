"""A compiler that is merely run: it ends in time, takes no more than it may, and writes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import ToolchainError
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.session.confinement import confinement_support
from mlgo_gym.session.limits import Limits
from tests.traces import children

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
    assert endless.stderr == "clang was to need at most 1 s of processor time (cpu_limit), and needed more"
    large = "import sys\ntry: bytearray(1 << 40)\nexcept MemoryError: sys.exit('out of memory')"
    assert "at most 2 GiB of memory (memory_limit)" in run_bounded(python(large), limits=Limits(memory=2)).stderr


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ToolchainError, match="/nowhere cannot be started"):
        run_bounded(["/nowhere"])
