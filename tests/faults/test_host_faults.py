"""A host that is interrupted, killed, forked or short of a resource: its compilers exit with it, or it continues."""

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from mlgo_gym import CompilerEnv, CompilerVectorEnv, MlgoError
from mlgo_gym.compiler.connection import scratch_root
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.make_env import make_environment
from tests.conftest import clang_program, limited
from tests.fakes.compiles import FaultyClang
from tests.fakes.stepping import INLINE
from tests.faults.catalogue import ENDS, FORKED, IGNORING, POINTS, SHORTAGES, Outcome, matches
from tests.faults.hosts import (
    DRIVER,
    FAULTY,
    FaultyCompiler,
    make_single,
    make_vector,
    run_single,
    run_sound_vector,
    run_vector,
    take_steps,
)
from tests.sampling import one_of_each
from tests.traces import ends_within

MAKE = "gym.make(ENV, corpus=CORPUS, clang=CLANG).unwrapped"
HOSTS = {"single": MAKE, "vector": "gym.make_vec(ENV, 2, corpus=CORPUS, clang=CLANG)", "fork": MAKE}
PROGRAM = """
import gymnasium as gym, mlgo_gym
env = MAKE
_, info = env.reset(options={"module": "faulty"})
if FORKS:
    env = [env, env.fork()][1]
while True:
    info = env.step(info["default_action"])[-1]
"""


def start(host: str, compiler: FaultyCompiler) -> subprocess.Popen[str]:
    """Start a host that its compiler sends a signal to."""
    clang = compiler.clang.program
    if host == "driver":
        command = [str(DRIVER), f"--mlgo-clang={clang}", "--mlgo-policy=never", "-Oz", "-c", "faulty.c"]
    else:
        program = PROGRAM.replace("MAKE", HOSTS[host]).replace("FORKS", str(host == "fork"))
        program = program.replace("ENV", repr(INLINE)).replace("CORPUS", repr(compiler.corpus))
        command = [sys.executable, "-c", program.replace("CLANG", repr(clang))]
    return subprocess.Popen(command, cwd=compiler.source.parent, text=True, stderr=subprocess.PIPE)


CASES = [
    (name, host, point)
    for name in ("SIGKILL", "SIGINT", "SIGTERM")
    for host in ("driver", "single", "vector", "fork")
    for point in sorted(POINTS, key="answer".__ne__)
    if not (host == "fork" and point in ("start", "header"))
]


@pytest.mark.parametrize(
    ("name", "host", "point"),
    one_of_each(
        CASES,
        lambda case: case[1],
        lambda case: case[2],
        lambda case: (case[0], case[1] == "driver"),
        name="-".join,
    ),
)
def test_signals_end_compilers(name: str, host: str, point: str, compiler: FaultyCompiler, faults: FaultyClang) -> None:
    compiler.source.with_suffix(".o").unlink(missing_ok=True)
    faults.set_fault(f"{name}@{point}")
    running = start(host, compiler)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == -getattr(signal, name), stderr
    if host != "driver" and name == "SIGINT":
        # The compiler of the second sub-environment may interrupt again while Python prints the traceback.
        assert "KeyboardInterrupt" in stderr
    pids = faults.take_pids()
    assert pids
    for pid in pids:
        assert ends_within(pid, 10)
    assert not compiler.source.with_suffix(".o").exists()


@pytest.fixture
def both(compiler: FaultyCompiler, faults: FaultyClang) -> Iterator[tuple[CompilerEnv, CompilerVectorEnv]]:
    """An environment and a vector environment, which work at the end."""
    env, envs = make_single(compiler), make_vector(compiler)
    yield env, envs
    faults.set_fault("")
    assert run_single(env) == Outcome(ENDS)
    run_sound_vector(envs)
    env.close()
    envs.close()


Both = tuple[CompilerEnv, CompilerVectorEnv]


@pytest.mark.parametrize("point", POINTS)
def test_an_environment_works_after_an_interrupted_reset_or_step(point: str, both: Both, faults: FaultyClang) -> None:
    env, envs = both
    for interrupted in (lambda: run_single(env), lambda: run_vector(envs)):
        faults.set_fault(f"SIGINT@{point}")
        with pytest.raises(KeyboardInterrupt):
            interrupted()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork_the_original_keeps_its_episodes_and_the_fork_may_reset(both: Both) -> None:
    env, envs = both
    _, info = env.reset(options=FAULTY)
    _, infos = envs.reset(options={"module": "sound"})
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with pytest.raises(MlgoError, match=re.escape(FORKED)):
                env.step(info["default_action"])
            with pytest.raises(MlgoError, match=re.escape(FORKED)):
                envs.step(infos["default_action"])
            assert run_single(env) == Outcome(ENDS)
            run_sound_vector(envs)
            env.close()
            envs.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert take_steps(env, info)[0] == Outcome(ENDS)
    assert envs.step(infos["default_action"])[-1]["decision_index"].tolist() == [1, 1]


# A machine that lacks a resource


@contextmanager
def no_space() -> Iterator[None]:
    """Fill the file system of the scratch folder: a small one is mounted over it."""
    libc, folder = ctypes.CDLL(None), os.fsencode(scratch_root())
    if libc.mount(b"none", folder, b"tmpfs", 0, b"size=4k,nr_inodes=3,mode=700") != 0:
        pytest.skip("this user may not mount a file system")
    try:
        yield
    finally:
        assert libc.umount(folder) == 0


def shortage(what: str) -> AbstractContextManager[None]:
    if what == "space":
        return no_space()
    lowest = os.dup(0)
    os.close(lowest)
    return limited(resource.RLIMIT_NOFILE, lowest + 3)


@pytest.mark.parametrize("what", SHORTAGES)
def test_a_shortage_is_an_error_and_the_next_reset_works(what: str, both: Both) -> None:
    env, envs = both
    assert run_single(env) == Outcome(ENDS)
    run_sound_vector(envs)

    def check(call: Callable[[], object], message: str = SHORTAGES[what]) -> None:
        with shortage(what), pytest.raises(MlgoError) as caught:
            call()
        assert matches(message, str(caught.value))

    check(lambda: env.reset(options=FAULTY))
    check(lambda: envs.reset(options={"module": "sound"}), f"environment 0: {SHORTAGES[what]}")
    _, info = env.reset(options=FAULTY)
    check(env.fork)
    assert take_steps(env, info)[0] == Outcome(ENDS)


def test_snapshots_are_tested_again_after_a_shortage() -> None:
    supported, reason = snapshot_support()
    if not supported:
        pytest.skip(reason)
    with no_space():
        pass  # or the test is skipped
    program = """
from mlgo_gym.compiler.snapshot_support import snapshot_support
from tests.faults.test_host_faults import no_space
with no_space():
    print(snapshot_support()[0])
print(snapshot_support()[0])
"""
    root = Path(__file__).parents[2]
    assert subprocess.check_output([sys.executable, "-c", program], text=True, cwd=root) == "False\nTrue\n"


def test_a_scratch_folder_that_disappears_is_replaced(both: Both) -> None:
    env, envs = both
    shutil.rmtree(scratch_root())
    assert run_single(env) == Outcome(ENDS)
    shutil.rmtree(scratch_root())
    run_sound_vector(envs)
    _, info = env.reset(options=FAULTY)
    shutil.rmtree(scratch_root())
    copied = env.fork()
    assert take_steps(copied, info)[0] == take_steps(env, info)[0] == Outcome(ENDS)
    copied.close()
    shutil.rmtree(scratch_root())


def test_an_object_beyond_the_file_size_limit_is_a_failure_of_the_compiler(both: Both) -> None:
    assert run_single(both[0]) == Outcome(ENDS)  # what it caches is in the cache before the limit
    with limited(resource.RLIMIT_FSIZE, 64):
        outcome = run_single(both[0])
    assert (outcome.where, outcome.kind) == ("step", "signal")
    assert "SIGXFSZ" in outcome.message


def test_a_compiler_with_too_little_memory_to_start_is_an_error(compiler: FaultyCompiler, tmp_path: Path) -> None:
    limit = 'case "$*" in *faulty*channel*) ulimit -v 150000 ;; esac'
    starved = clang_program(tmp_path / "starved", limit)
    with make_environment(INLINE, {"corpus": compiler.corpus, "clang": str(starved)}) as env:
        assert run_single(env).kind == "signal"
        _, info = env.reset(options={"module": "sound"})
        assert take_steps(env, info)[0] == Outcome(ENDS)


# A host that ignores SIGCHLD


@contextmanager
def ignoring_children() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_host_that_ignores_sigchld_gets_an_error(both: Both) -> None:
    with ignoring_children():
        for env in both:
            with pytest.raises(MlgoError, match=IGNORING):
                env.reset(options=FAULTY)


def test_the_commands_restore_the_handling_of_sigchld(compiler: FaultyCompiler, tmp_path: Path) -> None:
    shutil.copy(compiler.source, tmp_path)
    words = ["--mlgo-policy=never", "--mlgo-strict", "-Oz", "-c", "faulty.c"]
    evaluation = ["evaluate", INLINE, "--corpus", "builtin", "--limit", "1", "--policy", "never", "--output", "run"]
    with ignoring_children():
        for program, arguments in ((DRIVER, words), (DRIVER.with_name("mlgo-gym"), evaluation)):
            with subprocess.Popen([program, *arguments], cwd=tmp_path, stderr=subprocess.PIPE) as started:
                _, stderr = started.communicate()
            assert b"error" not in stderr.lower()
    assert (tmp_path / "faulty.o").exists()
    assert '"done"' in (tmp_path / "run" / "episodes.jsonl").read_text()
