"""`reproduce --reduce` ends in time after any signal, with all that it has started, and leaves no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mlgo_gym.llvm.toolchain import bundled_command
from tests.episode.test_reproducer import LARGE, keep
from tests.traces import ends_within

REDUCER = """#!/bin/sh
test=${1#--test=}
begin=$(mktemp --suffix begin.bc)
cp "$5" "$begin"
sleep 1000 &
"$test" "$begin"
echo > "$MARKS/reducing"
sleep 1000
"""
STALLING_CLANG = """#!/bin/sh
for last; do :; done
# As clang, it continues when it has read its last argument, which it gets when it is sure to end with its host.
case "$*" in *-cc1*begin.bc*) cat "${{last#@}}"; echo > "$MARKS/compiling"; sleep 1000;; esac
exec {compiler} "$@"
"""


@pytest.fixture
def reducing(calls: Path, tmp_path: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A command line that reduces without end, and its environment with folders for marks and temporary files."""
    folder, _ = keep(calls, tmp_path, LARGE)
    programs = {"llvm-reduce-22": REDUCER, "stalling": STALLING_CLANG.format(compiler=" ".join(bundled_command()))}
    for name in ("bin", "temporary"):
        (tmp_path / name).mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    for mark in ("reducing", "compiling"):
        os.mkfifo(tmp_path / mark)
    variables = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "temporary")}
    program = str(Path(sys.executable).with_name("mlgo-gym"))
    command = [program, "reproduce", str(folder), "--reduce", "--trust-flags"]
    yield command, {**os.environ, **variables, "MARKS": str(tmp_path)}
    for pid in started(tmp_path):
        os.kill(pid, signal.SIGKILL)


def started(folder: Path) -> set[int]:
    """Return the processes that have the marks of this test in their environment."""
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARKS={folder}".encode() in (entry / "environ").read_bytes():
                pids.add(int(entry.name))
    return pids


@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGTERM, "reducing"),
        (signal.SIGKILL, "compiling"),
    ],
)
def test_it_ends_with_all_that_it_has_started(
    number: signal.Signals, when: str, reducing: tuple[list[str], dict[str, str]], tmp_path: Path
) -> None:
    command, environment = reducing
    clang = ["--clang", "stalling"] if when == "compiling" else []
    with subprocess.Popen([*command, *clang], env=environment, stderr=subprocess.DEVNULL) as process:
        (tmp_path / when).read_text()  # waits for the writer
        assert list((tmp_path / "temporary").iterdir())
        process.send_signal(number)
        status = process.wait(timeout=60)
    if number is signal.SIGKILL:
        assert status == -number
    else:
        assert status in (128 + number, 1)
        assert list((tmp_path / "temporary").iterdir()) == []
    assert [pid for pid in started(tmp_path) if not ends_within(pid, 30)] == []
