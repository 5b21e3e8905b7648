"""A host that is interrupted, killed, forked or short of a resource: its compilers exit with it, or it continues."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.session import snapshot_support as snapshot_support_module
from mlgo_gym.session.process import scratch
from mlgo_gym.session.snapshot_support import snapshot_support
from mlgo_gym.vector_env import CompilerVectorEnv
from tests.faults.catalogue import ENDS, FORKED, IGNORING, SHORTAGES, Outcome, matches
from tests.faults.conftest import Faults
from tests.faults.hosts import (
    FAULTY,
    INLINE,
    FaultyCompiler,
    make_single,
    make_vector,
    run_single,
    run_sound_vector,
    run_vector,
    take_steps,
)
from tests.faults.test_compiler_faults import source
from tests.mlgo_clang.conftest import DRIVERS
from tests.sampling import one_of_each
from tests.traces import ends_within, scratch_folders

assert source

POINTS = ("start", "header", "question", "answer", "end")

HOSTS = {
    "single": """
import gymnasium as gym, mlgo_gym
env = gym.make(ENV, corpus=CORPUS, clang=CLANG).unwrapped
_, info = env.reset(options={"module": "faulty"})
while True:
    info = env.step(info["default_action"])[-1]
""",
    "vector": """
import gymnasium as gym, mlgo_gym
envs = gym.make_vec(ENV, 2, corpus=CORPUS, clang=CLANG)
_, info = envs.reset(options={"module": "faulty"})
while True:
    info = envs.step(info["default_action"])[-1]
""",
    "fork": """
import gymnasium as gym, mlgo_gym
env = gym.make(ENV, corpus=CORPUS, clang=CLANG).unwrapped
_, info = env.reset(options={"module": "faulty"})
env = [env, env.fork()][1]
while True:
    info = env.step(info["default_action"])[-1]
""",
}


def start(host: str, compiler: FaultyCompiler) -> subprocess.Popen[str]:
    """Start a host that its compiler sends a signal to."""
    if host == "driver":
        command = [
            str(DRIVERS["gcc"]),
            f"--mlgo-clang={compiler.clang}",
            "--mlgo-policy=never",
            "-Oz",
            "-c",
            "faulty.c",
        ]
    else:
        program = HOSTS[host].replace("ENV", repr(INLINE))
        program = program.replace("CORPUS", repr(compiler.corpus)).replace("CLANG", repr(compiler.clang))
        command = [sys.executable, "-c", program]
    return subprocess.Popen(command, cwd=compiler.source.parent, text=True, stderr=subprocess.PIPE)


def sweep() -> None:
    """Sweep scratch folders as the next host does."""
    scratch._sweep(scratch.scratch_parent())


CASES = [
    (name, host, point)
    for name in ("SIGKILL", "SIGINT", "SIGTERM")
    for host in ("driver", "single", "vector", "fork")
    for point in sorted(POINTS, key="answer".__ne__)
    if not (host == "fork" and point in ("start", "header"))
]


@pytest.mark.parametrize(
    ("name", "host", "point"),
    one_of_each(CASES, lambda case: case[:2], lambda case: (case[1] == "driver", case[2]), name="-".join),
)
def test_a_signal_ends_the_host_and_its_compilers(
    name: str, host: str, point: str, compiler: FaultyCompiler, source: FaultyCompiler, faults: Faults
) -> None:
    source.source.with_suffix(".o").unlink(missing_ok=True)
    faults.enable(f"{name}@{point}")
    running = start(host, compiler)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == -getattr(signal, name), stderr
    if host != "driver" and name == "SIGINT":
        # The compiler of the second sub-environment may interrupt again while Python prints the traceback.
        assert "KeyboardInterrupt" in stderr
    assert faults.pids
    for pid in faults.pids:
        assert ends_within(pid, 10)
    # The next host removes the folder of a killed one.
    sweep()
    assert scratch_folders(running.pid) == frozenset()
    assert not list(Path(scratch.scratch_parent()).glob(f"mlgo-gym-{running.pid}-*"))
    assert not source.source.with_suffix(".o").exists()


def interrupt(faults: Faults, point: str, work: Callable[[], object]) -> None:
    """Call a function that Ctrl-C interrupts at a point of a compile."""
    faults.enable(f"SIGINT@{point}")
    with pytest.raises(KeyboardInterrupt):
        work()
    faults.disable()


@pytest.mark.parametrize("point", POINTS)
def test_an_interrupted_reset_or_step_leaves_an_environment_that_works(
    point: str, compiler: FaultyCompiler, faults: Faults
) -> None:
    env = make_single(compiler)
    interrupt(faults, point, lambda: run_single(env))
    assert run_single(env) == Outcome(ENDS)
    env.close()


@pytest.mark.parametrize("point", ["header", "answer"])
def test_an_interrupted_reset_or_step_leaves_a_vector_environment_that_works(
    point: str, compiler: FaultyCompiler, faults: Faults
) -> None:
    envs = make_vector(compiler)
    interrupt(faults, point, lambda: run_vector(envs))
    run_sound_vector(envs)
    envs.close()


def in_fork(work: Callable[[], None]) -> None:
    """Call a function in a fork of this process, and check that it succeeded."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_the_original_keeps_its_episode_and_the_fork_may_reset(
    compiler: FaultyCompiler, faults: Faults
) -> None:
    env = make_single(compiler)
    _, info = env.reset(options=FAULTY)

    def use() -> None:
        with pytest.raises(MlgoError, match=re.escape(FORKED)):
            env.step(info["default_action"])
        assert run_single(env) == Outcome(ENDS)
        env.close()

    in_fork(use)
    assert take_steps(env, info)[0] == Outcome(ENDS)
    env.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_the_original_keeps_its_vector_environment(compiler: FaultyCompiler, faults: Faults) -> None:
    envs = make_vector(compiler)
    _, info = envs.reset(options={"module": "sound"})

    def use() -> None:
        with pytest.raises(MlgoError, match=re.escape(FORKED)):
            envs.step(info["default_action"])
        run_sound_vector(envs)
        envs.close()

    in_fork(use)
    assert envs.step(info["default_action"])[-1]["decision_index"].tolist() == [1, 1]
    envs.close()


# A machine that lacks a resource


@contextmanager
def limited(what: int, value: int) -> Iterator[None]:
    """Lower a limit of this process."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def no_descriptors() -> Any:
    lowest = os.dup(0)
    os.close(lowest)
    return limited(resource.RLIMIT_NOFILE, lowest + 3)


@contextmanager
def no_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Make scratch folders on a file system of three files, or on one that reports to be full."""
    small = tmp_path / "small"
    small.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=3", "none", str(small)]
    able = os.getuid() == 0 and shutil.which("mount") is not None
    mounted = able and subprocess.run(words, capture_output=True, check=False).returncode == 0
    with monkeypatch.context() as patch:
        if mounted:
            patch.setattr(scratch, "scratch_parent", lambda: str(small))
        else:

            def refuse(*_: Any, **__: Any) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, "mkfifo", refuse)
        try:
            yield
        finally:
            scratch._make_root.cache_clear()
            if mounted:
                subprocess.run(["umount", str(small)], check=True)


def shortage(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return no_descriptors() if what == "descriptors" else no_space(monkeypatch, tmp_path)


@pytest.mark.parametrize("what", SHORTAGES)
def test_a_shortage_is_an_error_and_the_next_reset_works(
    what: str, compiler: FaultyCompiler, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = make_single(compiler)
    assert run_single(env) == Outcome(ENDS)
    with shortage(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        env.reset(options=FAULTY)
    assert matches(SHORTAGES[what], str(caught.value))
    _, info = env.reset(options=FAULTY)
    with shortage(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        env.fork()
    assert matches(SHORTAGES[what], str(caught.value))
    assert take_steps(env, info)[0] == Outcome(ENDS)
    env.close()


@pytest.mark.parametrize("what", SHORTAGES)
def test_a_shortage_is_an_error_of_a_vector_environment(
    what: str, compiler: FaultyCompiler, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    envs = make_vector(compiler)
    run_sound_vector(envs)
    with shortage(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        envs.reset(options={"module": "sound"})
    assert matches(f"environment 0: {SHORTAGES[what]}", str(caught.value))
    run_sound_vector(envs)
    envs.close()


def test_snapshots_are_tested_again_after_a_shortage(
    compiler: FaultyCompiler, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    supported, reason = snapshot_support()
    if not supported:
        pytest.skip(reason)
    snapshot_support_module._test.cache_clear()
    with no_space(monkeypatch, tmp_path):
        assert not snapshot_support()[0]
    assert snapshot_support()[0]


def test_a_scratch_folder_that_disappears_is_replaced(compiler: FaultyCompiler, faults: Faults) -> None:
    env, envs = make_single(compiler), make_vector(compiler)
    for _ in range(2):
        shutil.rmtree(scratch.scratch_root())
        assert run_single(env) == Outcome(ENDS)
        shutil.rmtree(scratch.scratch_root())
        run_sound_vector(envs)
    shutil.rmtree(scratch.scratch_root())
    _, info = env.reset(options=FAULTY)
    shutil.rmtree(scratch.scratch_root())
    copied = env.fork()
    assert take_steps(copied, info)[0] == take_steps(env, info)[0] == Outcome(ENDS)
    for each in (env, envs, copied):
        each.close()


def test_an_object_beyond_the_file_size_limit_is_a_failure_of_the_compiler(
    compiler: FaultyCompiler, faults: Faults
) -> None:
    env = make_single(compiler)
    assert run_single(env) == Outcome(ENDS)
    with limited(resource.RLIMIT_FSIZE, 64):
        outcome = run_single(env)
    assert (outcome.where, outcome.kind) == ("step", "signal")
    assert "SIGXFSZ" in outcome.message
    assert run_single(env) == Outcome(ENDS)
    env.close()


def test_a_compiler_with_too_little_memory_to_start_is_an_error(
    compiler: FaultyCompiler, faults: Faults, tmp_path: Path
) -> None:
    zig, mode = bundled_command()
    starved = tmp_path / "starved"
    starved.write_text(
        f'#!/bin/sh\ncase "$*" in *faulty*channel*) ulimit -v 150000 ;; esac\nexec "{zig}" {mode} "$@"\n'
    )
    starved.chmod(0o755)
    corpus = tmp_path / "corpus"
    shutil.copytree(compiler.corpus, corpus)
    env = make_single(FaultyCompiler(str(starved), str(corpus), compiler.source))
    with pytest.raises(CompilerError) as caught:
        env.reset(options=FAULTY)
    assert caught.value.kind == "signal"
    _, info = env.reset(options={"module": "sound"})
    assert take_steps(env, info)[0] == Outcome(ENDS)
    env.close()


# A host that ignores SIGCHLD


@contextmanager
def ignoring_children() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_host_that_ignores_sigchld_gets_an_error(compiler: FaultyCompiler, faults: Faults) -> None:
    env, envs = make_single(compiler), make_vector(compiler)
    with ignoring_children():
        with pytest.raises(MlgoError, match=IGNORING):
            env.reset(options=FAULTY)
        with pytest.raises(MlgoError, match=IGNORING):
            envs.reset(options=FAULTY)
    assert run_single(env) == Outcome(ENDS)
    run_sound_vector(envs)
    for each in (env, envs):
        each.close()


def test_the_commands_restore_the_handling_of_sigchld(tmp_path: Path) -> None:
    (tmp_path / "calls.c").write_text("static int f(int n) { return n * n; } int g(int n) { return f(n) + f(2); }\n")
    words = ["--mlgo-policy=never", "--mlgo-strict", "-Oz", "-c", "calls.c"]
    evaluation = ["evaluate", INLINE, "--corpus", "builtin", "--limit", "1", "--policy", "never", "--output", "run"]
    with ignoring_children():
        for program, arguments in ((DRIVERS["gcc"], words), (DRIVERS["gcc"].with_name("mlgo-gym"), evaluation)):
            with subprocess.Popen([program, *arguments], cwd=tmp_path, stderr=subprocess.PIPE) as started:
                _, stderr = started.communicate()
            assert b"error" not in stderr.lower()
    assert (tmp_path / "calls.o").exists()
    assert '"done"' in (tmp_path / "run" / "episodes.jsonl").read_text()


# Two hosts, and the clock


BOTH = """
import gymnasium as gym, mlgo_gym, json, sys
env = gym.make(ENV, corpus=CORPUS, observation="vector").unwrapped
_, info = env.reset(options={"module": "faulty"})
over = False
while not over:
    *_, over, _, info = env.step(info["default_action"])
print(json.dumps(info, default=str))
"""


def test_two_hosts_share_a_cache(compiler: FaultyCompiler, faults: Faults, own_cache: Path) -> None:
    program = BOTH.replace("ENV", repr(INLINE)).replace("CORPUS", repr(compiler.corpus))
    hosts = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outcome_of_info = {host.communicate(timeout=60)[0] for host in hosts}
    assert [host.returncode for host in hosts] == [0, 0]
    assert len(outcome_of_info) == 1
    assert not [path for path in own_cache.rglob("*") if path.is_file() and path.name.startswith((".", "tmp"))]


@pytest.mark.parametrize("hours", [-8766, 8766])
def test_a_clock_that_jumps_changes_nothing(
    hours: int, compiler: FaultyCompiler, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return clock() + 3600.0 * hours * (calls % 2)

    monkeypatch.setattr(time, "time", jumping)
    env: CompilerEnv = make_single(compiler)
    envs: CompilerVectorEnv = make_vector(compiler)
    _, info = env.reset(options=FAULTY)
    copied = env.fork()
    time.time()
    assert take_steps(copied, info)[0] == take_steps(env, info)[0] == Outcome(ENDS)
    run_sound_vector(envs)
    for each in (env, envs, copied):
        each.close()
