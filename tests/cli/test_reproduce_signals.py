"""`reproduce --reduce` ends in time however it is told to, with all that it has started, and leaves no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.storage.temporary_folders import temporary_folder
from tests.episode.test_reproducer import LARGE, keep

REDUCER = """#!/bin/sh
test=${1#--test=}
begin=$(mktemp --suffix begin.bc)
cp "$5" "$begin"
sleep 1000 &
while "$test" "$begin"; do : > "$MARKS/asked"; done
sleep 1000
"""
STALLING_CLANG = """#!/bin/sh
for last; do :; done
# As clang, it goes on when it has read its last argument, which it gets when it is sure to end with its host.
case "$*" in *-cc1*begin.bc*) cat "${{last#@}}"; : > "$MARKS/compiling"; sleep 1000;; esac
exec {compiler} "$@"
"""


@pytest.fixture
def reducing(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[str]]]:
    """A folder for marks and temporary files, and a command line that reduces for ever."""
    folder, _ = keep(calls, tmp_path, LARGE)
    programs = {"llvm-reduce-22": REDUCER, "stalling": STALLING_CLANG.format(compiler=" ".join(bundled_command()))}
    for name, text in programs.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("MARKS", str(tmp_path))
    code = "import sys; from mlgo_gym.cli import main; sys.argv[0] = 'mlgo-gym'; main()"
    yield temporary, [sys.executable, "-c", code, "reproduce", str(folder), "--reduce", "--trust-flags"]
    for pid in started(tmp_path):
        os.kill(pid, signal.SIGKILL)


def started(folder: Path) -> set[int]:
    """Return the processes that have a temporary folder of this test in their environment, but for this one."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARKS={folder}".encode() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}


def wait_until(mark: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not mark.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGTERM, "asked"),
        (signal.SIGINT, "compiling"),
        (signal.SIGKILL, "compiling"),
        *(
            pytest.param(*combination, marks=pytest.mark.slow)
            for combination in (
                (signal.SIGTERM, "compiling"),
                (signal.SIGHUP, "asked"),
                (signal.SIGHUP, "compiling"),
                (signal.SIGINT, "asked"),
                (signal.SIGKILL, "asked"),
            )
        ),
    ],
)
def test_it_ends_with_all_that_it_has_started(
    number: signal.Signals, when: str, reducing: tuple[Path, list[str]], tmp_path: Path
) -> None:
    temporary, command = reducing
    clang = ["--clang", "stalling"] if when == "compiling" else []
    with subprocess.Popen([*command, *clang], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(tmp_path / when, process)
        assert list(temporary.iterdir())
        process.send_signal(number)
        status = process.wait(timeout=20)
    if number is signal.SIGKILL:
        assert status == -number
    else:
        assert status in (128 + number, 1)
        assert list(temporary.iterdir()) == []
    end = time.monotonic() + 10
    while left := started(tmp_path):
        assert time.monotonic() < end, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        time.sleep(0.01)
    with temporary_folder() as folder:
        assert list(temporary.iterdir()) == [folder]
