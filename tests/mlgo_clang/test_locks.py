"""Files that processes share: locks whose holder does not continue, and a cache that is damaged or cannot be."""

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
from tests.garbling import garblings
from tests.mlgo_clang.conftest import DRIVERS, Run, files

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


def test_a_lock_is_waited_for_until_deadline_or_release_unless_its_holder_is_stopped(tmp_path: Path) -> None:
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


def test_stopped_holders_and_other_code_do_no_harm(run: Run, project: Path, network: Path, own_cache: Path) -> None:
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


COMPILE = ("--mlgo-strict", "-Oz", "-c", "calls.c", "-o", "calls.o")


@pytest.mark.parametrize("times", [1, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_a_garbled_cache_is_made_again(times: int, run: Run, project: Path, network: Path, own_cache: Path) -> None:
    kinds = {"native-code", "library", "headers", "counters"}
    headers = ("--mlgo-policy=never", "--target=riscv64-linux-musl")
    for policy in ((f"--mlgo-policy=mlp:{network}",), headers):

        def compiled(policy: tuple[str, ...] = policy) -> bytes:
            result = run(*policy, *COMPILE)
            assert (result.returncode, result.stderr) == (0, b"")
            return (project / "calls.o").read_bytes()

        expected = compiled()
        for path in [path for path in own_cache.rglob("*") if path.is_file() and path.stat().st_size]:
            kind = {".so": "native-code", ".library": "library"}.get(path.suffix, path.name.partition("-")[0])
            kind = "counters" if path.parent.name == "builds" else kind
            if kind not in kinds:
                continue
            kinds.remove(kind)
            data = path.read_bytes()
            for garbled in garblings(data, times):
                path.write_bytes(garbled)
                assert compiled() == expected
                assert path.read_bytes() == data or kind == "counters"
    assert not kinds


def test_native_code_that_cannot_be_made_again_leaves_the_file_to_clang(
    run: Run, project: Path, network: Path, own_cache: Path, plain: bytes, tmp_path: Path
) -> None:
    copy = tmp_path / network.name
    shutil.copy(network, copy)
    words = (f"--mlgo-policy=mlp:{copy}", "-Oz", "-c", "calls.c", "-o", "calls.o")
    assert run(*words).returncode == 0
    (library,) = own_cache.rglob("*.so")
    library.write_bytes(library.read_bytes()[:5000])
    status = copy.stat()
    copy.write_bytes(bytes(status.st_size))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    result = run(*words)
    assert (result.returncode, result.stderr.count(b"\n")) == (0, 1)
    assert b"is compiled by clang alone: expected a safetensors file" in result.stderr
    assert (project / "calls.o").read_bytes() == plain


def test_it_compiles_without_a_cache_or_a_folder(run: Run, project: Path, tmp_path: Path, network: Path) -> None:
    words = ("-Oz", "-c", str(project / "calls.c"), "-o", str(tmp_path / "calls.o"))
    for variables in (("HOME=",), ("-u", "HOME", "HOME=relative"), (f"HOME={tmp_path}", "XDG_CACHE_HOME=relative")):
        before = ("env", "-u", "MLGO_CACHE", "-u", "XDG_CACHE_HOME", *variables)
        result = run("--mlgo-policy=never", *words, before=before)
        assert (result.returncode, result.stderr, files(project)) == (0, b"", ["calls.c"])
    assert (tmp_path / ".cache" / "mlgo-gym" / "mlgo-clang" / "builds").is_dir()
    without_home = ("env", "-u", "MLGO_CACHE", "-u", "XDG_CACHE_HOME", "HOME=")
    result = run(f"--mlgo-policy=mlp:{network}", *words, before=without_home)
    assert (result.returncode, b"expected a cache folder that can be written" in result.stderr) == (0, True)
    own_cache = ("env", f"MLGO_CACHE={tmp_path / 'cache'}")  # other tests of this build may have warned already
    removed = (*own_cache, "sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh")
    for options, status, message in (
        (("--mlgo-policy=never",), 0, b""),
        (("--mlgo-levels=2",), 0, b"expected -O2, got -Oz"),
        (("--mlgo-policy=mlp:nowhere",), 1, b"expected the file of a policy"),
        (("--mlgo-clang=./nowhere",), 1, b"expected a clang 17 or newer, got './nowhere'"),
    ):
        result = run(*options, *words, before=removed)
        assert (result.returncode, message in result.stderr, b"Traceback" in result.stderr) == (status, True, False)
