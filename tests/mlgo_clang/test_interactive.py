"""After every fault the object is correct or the exit status is not 0, and no file or process stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlgo_clang.counters import counters_path, parse
from mlgo_gym.session.process.scratch import scratch_parent
from tests.mlgo_clang.conftest import DRIVERS, Run
from tests.traces import ends_within


@pytest.fixture
def plain(run: Run, project: Path) -> bytes:
    """The object that clang alone compiles."""
    assert run("--mlgo-policy=default", "-Oz", "-c", "calls.c", "-o", "plain.o").returncode == 0
    data = (project / "plain.o").read_bytes()
    (project / "plain.o").unlink()
    return data


def abandoned() -> set[str]:
    """Folders of channels whose driver has exited."""
    names = (path.name for path in Path(scratch_parent()).glob("mlgo-gym-*-" + "[0-9a-f]" * 16))
    return {name for name in names if not Path("/proc", name.split("-")[2]).exists()}


def files(project: Path) -> list[str]:
    return sorted(path.name for path in project.iterdir())


def clangs_on(project: Path) -> list[str]:
    """Command lines of the processes whose working folder is the project."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == project:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # noqa: PERF203 - processes end while they are looked at
            continue
    return found


def unreadable(tmp_path: Path) -> list[str]:
    garbage = tmp_path / "garbage.safetensors"
    garbage.write_bytes(b"\x00" * 100)
    return [f"mlp:{garbage}", "mlp:/nowhere/at/all", "no-such-policy", "threshold:many", "onnx:file"]


@pytest.mark.parametrize("number", range(5))
def test_a_policy_that_cannot_be_read(
    run: Run, project: Path, plain: bytes, number: int, tmp_path: Path, own_cache: Path
) -> None:
    policy = unreadable(tmp_path)[number]
    result = run(f"--mlgo-policy={policy}", "-Oz", "-c", "calls.c")
    assert result.returncode == 0
    assert result.stderr.count(b"mlgo-clang: warning: calls.c is compiled by clang alone") == 1
    assert (project / "calls.o").read_bytes() == plain
    assert parse(Path(counters_path()).read_bytes())["compiled by clang alone"] == 1
    strict = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", "calls.c", "-o", "strict.o")
    assert strict.returncode == 1
    assert b"error: calls.c" in strict.stderr
    assert files(project) == ["calls.c", "calls.o"]


@pytest.mark.parametrize("message", ["", "Traceback"])
def test_clang_reports_an_error_of_the_source(run: Run, project: Path, message: str) -> None:
    (project / "calls.c").write_text("int f(void) { return nothing; }\n")
    expected = run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    for extra in ((), ("--mlgo-strict",)):
        found = run("--mlgo-policy=never", *extra, "-Oz", "-c", "calls.c")
        assert (found.returncode, found.stdout, found.stderr) == (expected.returncode, b"", expected.stderr)
    assert files(project) == ["calls.c"]


def test_a_clang_without_interactive_mode(run: Run, project: Path, plain: bytes, clang: dict[str, list[str]]) -> None:
    program = project / "old-clang"
    words = " ".join(f"'{word}'" for word in clang["gcc"])
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *interactive*) echo "Unknown argument" >&2; exit 1;; esac\nexec {words} "$@"\n'
    )
    program.chmod(0o755)
    result = run("--mlgo-policy=never", f"--mlgo-clang={program}", "-Oz", "-c", "calls.c")
    assert result.returncode == 0
    assert result.stderr.count(b"\n") == 1
    assert b"compiled by clang alone" in result.stderr
    assert (project / "calls.o").read_bytes() == plain


def test_a_full_disk(run: Run, project: Path, clang: dict[str, list[str]]) -> None:
    result = run("--mlgo-policy=never", "-Oz", "-c", "calls.c", "-o", "/dev/full")
    assert result.returncode == 1
    assert b"No space left on device" in result.stderr
    assert files(project) == ["calls.c"]


def test_a_cache_that_cannot_be_written(run: Run, project: Path, plain: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLGO_CACHE", "/dev/null/cache")
    result = run("--mlgo-policy=never", "-Oz", "-c", "calls.c")
    assert (result.returncode, result.stderr) == (0, b"")
    assert (project / "calls.o").read_bytes() != plain


def test_no_room_for_channels(
    run: Run, project: Path, plain: bytes, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A limit on descriptors represents every missing resource of a channel.
    limited = ("sh", "-c", 'ulimit -n 6 && exec "$@"', "sh")
    result = run("--mlgo-policy=never", "-Oz", "-c", "calls.c", before=limited)
    if result.returncode == 0:
        assert b"compiled by clang alone" in result.stderr
        assert (project / "calls.o").read_bytes() == plain
    else:
        assert files(project) == ["calls.c"]


STALLING = """
import os, signal, sys, time
from mlgo_clang import driver, policies
def stall(spec):
    def decide(data, start):
        {what}
    return lambda header: decide
import mlgo_clang.advised
mlgo_clang.advised.inlining_rule = stall
sys.exit(driver.run("gcc", sys.argv[1:]))
"""


def start_stalled(project: Path, what: str, *extra: str) -> subprocess.Popen[bytes]:
    """Start a driver whose policy runs a statement at the first request."""
    code = STALLING.format(what=what)
    command = [sys.executable, "-c", code, "--mlgo-policy=never", *extra, "-Oz", "-c", "calls.c"]
    return subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE)


def wait_for(condition: object, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator] # a function
        assert time.monotonic() < end
        time.sleep(0.01)  # another process gives no event to wait for


def test_a_policy_that_raises(project: Path, plain: bytes) -> None:
    process = start_stalled(project, "raise policies.PolicyError('it has no advice')")
    _, stderr = process.communicate()
    assert process.returncode == 0
    assert stderr == b"mlgo-clang: warning: calls.c is compiled by clang alone: it has no advice\n"
    assert (project / "calls.o").read_bytes() == plain
    assert files(project) == ["calls.c", "calls.o"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_driver_that_is_killed_leaves_nothing(project: Path, number: int) -> None:
    before = abandoned()
    process = start_stalled(project, "open('requested', 'w').close(); time.sleep(600)")
    wait_for((project / "requested").exists)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    wait_for(lambda: not clangs_on(project))
    assert files(project) == ["calls.c", "requested"]
    assert abandoned() <= before


SIGNALLED = """
import os, signal, sys
from mlgo_clang import interactive
from mlgo_clang.driver import run

def signalled(name):
    function = getattr(interactive, name)
    def call(*arguments):
        result = function(*arguments)
        os.kill(os.getpid(), signal.{signal})
        return result
    return call

interactive.{name} = signalled("{name}")
sys.exit(run("gcc", sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["make_scratch", "_guard", "_serve_until_exit"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_compile_starts_or_ends_leaves_nothing(
    project: Path, name: str, number: signal.Signals
) -> None:
    before = abandoned()
    code = SIGNALLED.format(name=name, signal=number.name)
    command = [sys.executable, "-c", code, "--mlgo-policy=never", "-Oz", "-c", "calls.c"]
    assert subprocess.run(command, cwd=project, check=False).returncode == -number
    assert not clangs_on(project)
    assert [file for file in files(project) if file != "calls.o"] == ["calls.c"]
    assert abandoned() <= before


KILLED_BEFORE_THE_GUARD = """
import os, signal, sys
from mlgo_clang import interactive
from mlgo_clang.driver import run

def die(pid, read_end):
    os.write(1, b"%d" % pid)
    os.kill(os.getpid(), signal.SIGKILL)

interactive._guard = die
sys.exit(run("gcc", sys.argv[1:]))
"""


@pytest.mark.parametrize("extra", [(), ("--mlgo-eviction-policy=never_evict",)])
def test_clang_exits_if_its_driver_is_killed_before_clang_is_guarded(project: Path, extra: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", KILLED_BEFORE_THE_GUARD, "--mlgo-policy=never", *extra, "-Oz", "-c", "calls.c"]
    answer = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, check=False)
    assert answer.returncode == -signal.SIGKILL
    assert ends_within(int(answer.stdout), 10)
    assert files(project) == ["calls.c"]


def test_a_clang_in_a_wrapper_that_passes_no_descriptors_on_requests_decisions(
    run: Run, project: Path, plain: bytes, clang: dict[str, list[str]], tmp_path: Path
) -> None:
    around = tmp_path / "around"
    code = f"import subprocess, sys; sys.exit(subprocess.run([*{clang['gcc']!r}, *sys.argv[1:]]).returncode)"
    around.write_text(f"#!{sys.executable}\n{code}\n")
    around.chmod(0o755)
    result = run(f"--mlgo-clang={around}", "--mlgo-policy=always", "--mlgo-strict", "-Oz", "-c", "calls.c")
    assert (result.returncode, result.stderr) == (0, b"")
    assert (project / "calls.o").read_bytes() != plain


def test_a_clang_that_is_killed(project: Path, plain: bytes) -> None:
    process = start_stalled(project, "open('requested', 'w').close(); time.sleep(2); return 0")
    wait_for((project / "requested").exists)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == 0
    assert b"clang exited with status -9 while a policy decided" in stderr
    assert (project / "calls.o").read_bytes() == plain


def make_project(project: Path, files: int) -> None:
    """Add sources, and a makefile that compiles them all."""
    for number in range(files):
        shutil.copy(project / "calls.c", project / f"part{number}.c")
    objects = " ".join(f"part{number}.o" for number in range(files))
    (project / "Makefile").write_text(f"all: {objects}\n%.o: %.c\n\t$(CC) -Oz -c $< -o $@\n")


def test_ctrl_c_in_a_parallel_make_leaves_nothing(project: Path) -> None:
    make_project(project, 20)
    before = abandoned()
    command = ["make", "-j4", f"CC={DRIVERS['gcc']} --mlgo-policy=always"]
    process = subprocess.Popen(
        command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_for(lambda: len(list(project.glob("*.o"))) > 4)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() != 0
    wait_for(lambda: not clangs_on(project))
    assert abandoned() <= before
    leftovers = [name for name in files(project) if not name.endswith((".c", ".o")) and name != "Makefile"]
    assert leftovers == []
    finished = {path.read_bytes() for path in project.glob("*.o")}
    subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
    assert len({path.stat().st_size for path in project.glob("*.o")}) == 1
    assert all(len(data) == (project / "part0.o").stat().st_size for data in finished)


def test_two_builds_at_once_make_equal_objects(project: Path, network: Path, own_cache: Path) -> None:
    make_project(project, 6)
    folders = [project.parent / f"copy{number}" for number in range(2)]
    for folder in folders:
        shutil.copytree(project, folder)
    # With an empty cache each of them builds the native code of the network.
    command = ["make", "-j3", f"CC={DRIVERS['gcc']} --mlgo-policy=mlp:{network} --mlgo-strict"]
    processes = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for folder in folders]
    assert [process.wait() for process in processes] == [0, 0]
    for number in range(6):
        first, second = (folder / f"part{number}.o" for folder in folders)
        assert first.read_bytes() == second.read_bytes()
    assert parse(Path(counters_path()).read_bytes())["compiled with a policy"] == 12
    assert [path.name for path in (own_cache / "mlgo-clang").glob(".build-*")] == []
