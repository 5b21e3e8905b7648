"""A process that holds a lock and does not continue delays no compile."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import read_counters
from mlgo_clang.files import digest_of, holder, is_stopped, lock, read_checked, write_checked
from tests.conftest import clang_program
from tests.mlgo_clang.conftest import DRIVERS, Run

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, *, stopped: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process hold the lock of a file, and stop it with SIGSTOP."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-I", "-S", "-c", HOLD, str(path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        if stopped:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_lock_is_waited_for_until_deadline_or_release_unless_its_holder_is_stopped(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    with held(path, stopped=False) as process, path.open() as file:
        assert holder(file.fileno()) == process.pid
        assert not lock(file.fileno(), 0.05)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_stopped(process.pid)
        assert not lock(file.fileno(), 3600)
        process.kill()
        assert lock(file.fileno(), 3600)
        with path.open() as again, pytest.raises(BlockingIOError):
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_first_parallel_build_makes_the_native_code_once_and_equal_networks_share_it(
    project: Path, network: Path, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The program notes each library that it links.
    link = f'echo 1 >> "{tmp_path}/shared"; exec {compiler_command("bundled", "gcc")[0]} ld.lld "$@"'
    clang = clang_program(tmp_path / "clang", f'if [ "$1" = -shared ]; then {link}; fi')
    monkeypatch.setenv("MLGO_CLANG", str(clang))
    copy = tmp_path / network.name
    shutil.copy(network, copy)
    (project / "json.py").write_text("raise SystemExit('imported from the folder of a build')\n")

    def start(path: Path, output: str) -> subprocess.Popen[bytes]:
        words = ["-Os", "-c", "calls.c", f"--mlgo-policy=mlp:{path}", "--mlgo-strict", "-o", output]
        return subprocess.Popen([str(DRIVERS["gcc"]), *words], cwd=project)

    compiles = [start(network, f"{number}.o") for number in range(6)]
    assert [process.wait() for process in compiles] == [0] * 6
    assert (tmp_path / "shared").read_text().count("\n") == 1
    assert start(copy, "6.o").wait() == 0
    assert len({(project / f"{number}.o").read_bytes() for number in range(7)}) == 1
    assert len(list((own_cache / "native-code").glob("*.so"))) == 1


def test_neither_a_stopped_holder_delays_a_compile_nor_is_native_code_of_other_generators_used(
    run: Run, project: Path, network: Path, own_cache: Path
) -> None:
    words = ("-Os", "-c", "calls.c", f"--mlgo-policy=mlp:{network}", "--mlgo-strict")
    assert run(*words).returncode == 0
    assert read_counters()["compiled with a policy"] == 1
    (note,) = (own_cache / "mlgo-clang").glob("*.library")
    written = read_checked(str(note))
    assert written is not None
    old = own_cache / f"{digest_of(b'code of another generator')}.so"
    old.write_bytes(b"code of another generator")
    _, facts = written.split(b"\0", 1)
    write_checked(str(note), os.fsencode(old) + b"\0" + facts.replace(b"channel.c ", b"channel.c 1"))
    assert run(*words).returncode == 0
    assert read_checked(str(note)) == written
    note.unlink()
    with held(note.with_name(f"{note.name}.lock"), stopped=True):
        assert run(*words).returncode == 0
