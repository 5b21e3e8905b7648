"""A host that is interrupted, killed, forked or short of something: its compilers end with it, or it goes on."""

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
from mlgo_gym.session import scratch
from mlgo_gym.session import snapshot_support as snapshot_support_module
from mlgo_gym.session.snapshot_support import snapshot_support
from mlgo_gym.vector_env import CompilerVectorEnv
from tests.faults.catalogue import ENDS, FORKED, IGNORING, LACKS, Sight, matches
from tests.faults.conftest import Faults
from tests.faults.hosts import (
    FAULTY,
    INLINE,
    Place,
    make_single,
    make_vector,
    see_in_single,
    see_in_vector,
    sound_vector,
    take_steps,
)
from tests.faults.test_compiler_faults import source
from tests.mlgo_clang.conftest import DRIVERS
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


def start(host: str, place: Place) -> subprocess.Popen[str]:
    """Start a host that a signal from its compiler will reach."""
    if host == "driver":
        command = [str(DRIVERS["gcc"]), f"--mlgo-clang={place.clang}", "--mlgo-policy=never", "-Oz", "-c", "faulty.c"]
    else:
        program = HOSTS[host].replace("ENV", repr(INLINE))
        program = program.replace("CORPUS", repr(place.corpus)).replace("CLANG", repr(place.clang))
        command = [sys.executable, "-c", program]
    return subprocess.Popen(command, cwd=place.source.parent, text=True, stderr=subprocess.PIPE)


def swept() -> None:
    """Do what the next host does when it makes its first folder."""
    scratch._sweep(scratch.scratch_parent())


CASES = [
    *[("SIGKILL", "single", point) for point in POINTS],
    *[(name, "single", "answer") for name in ("SIGINT", "SIGTERM")],
    *[(name, host, "answer") for name in ("SIGKILL", "SIGINT", "SIGTERM") for host in ("vector", "fork")],
    *[(name, "driver", point) for name in ("SIGKILL", "SIGINT", "SIGTERM") for point in POINTS],
    *[
        pytest.param(name, host, point, marks=pytest.mark.slow)
        for name in ("SIGKILL", "SIGINT", "SIGTERM")
        for host in ("single", "vector", "fork")
        for point in POINTS
        if point != "answer" and (name, host) != ("SIGKILL", "single")
        if not (host == "fork" and point in ("start", "header"))
    ],
]


@pytest.mark.parametrize(("name", "host", "point"), CASES)
def test_a_signal_ends_the_host_and_its_compilers(
    name: str, host: str, point: str, place: Place, source: Place, faults: Faults
) -> None:
    source.source.with_suffix(".o").unlink(missing_ok=True)
    faults.begin(f"{name}@{point}")
    running = start(host, place)
    _, said = running.communicate(timeout=60)
    assert running.returncode == -getattr(signal, name), said
    if host != "driver" and name == "SIGINT":
        # The compiler of the second sub-environment interrupts again, perhaps while Python says so.
        assert "KeyboardInterrupt" in said
    assert faults.pids
    for pid in faults.pids:
        assert ends_within(pid, 10)
    # What a host cannot remove any more, the next one does.
    swept()
    assert scratch_folders(running.pid) == frozenset()
    assert not list(Path(scratch.scratch_parent()).glob(f"mlgo-gym-{running.pid}-*"))
    assert not source.source.with_suffix(".o").exists()


def interrupt(faults: Faults, point: str, work: Callable[[], object]) -> None:
    """Do something that a Ctrl-C ends at some point of a compile."""
    faults.begin(f"SIGINT@{point}")
    with pytest.raises(KeyboardInterrupt):
        work()
    faults.end()


@pytest.mark.parametrize("point", POINTS)
def test_an_interrupted_reset_or_step_leaves_an_environment_that_works(
    point: str, place: Place, faults: Faults
) -> None:
    env = make_single(place)
    interrupt(faults, point, lambda: see_in_single(env))
    assert see_in_single(env) == Sight(ENDS)
    env.close()


@pytest.mark.parametrize("point", ["header", "answer"])
def test_an_interrupted_reset_or_step_leaves_a_vector_environment_that_works(
    point: str, place: Place, faults: Faults
) -> None:
    envs = make_vector(place)
    interrupt(faults, point, lambda: see_in_vector(envs))
    sound_vector(envs)
    envs.close()


def in_forked_copy(work: Callable[[], None]) -> None:
    """Do something in a forked copy of this process, and check that it went well there."""
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
def test_a_host_that_forks_in_an_episode_keeps_it_and_the_copy_begins_another(place: Place, faults: Faults) -> None:
    env = make_single(place)
    _, info = env.reset(options=FAULTY)

    def use() -> None:
        with pytest.raises(MlgoError, match=re.escape(FORKED)):
            env.step(info["default_action"])
        assert see_in_single(env) == Sight(ENDS)
        env.close()

    in_forked_copy(use)
    assert take_steps(env, info)[0] == Sight(ENDS)
    env.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_host_that_forks_in_an_episode_keeps_its_vector_environment(place: Place, faults: Faults) -> None:
    envs = make_vector(place)
    _, info = envs.reset(options={"module": "sound"})

    def use() -> None:
        with pytest.raises(MlgoError, match=re.escape(FORKED)):
            envs.step(info["default_action"])
        sound_vector(envs)
        envs.close()

    in_forked_copy(use)
    assert envs.step(info["default_action"])[-1]["decision"].tolist() == [1, 1]
    envs.close()


# A machine that has no more of something


@contextmanager
def limited(what: int, value: int) -> Iterator[None]:
    """Lower a limit of this process for a while."""
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
    """Let scratch folders lie on a file system of three files, or on one that says that it is full."""
    small = tmp_path / "small"
    small.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=3", "none", str(small)]
    mounted = os.getuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
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


def lacks(what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    return no_descriptors() if what == "descriptors" else no_space(monkeypatch, tmp_path)


@pytest.mark.parametrize("what", LACKS)
def test_what_lacks_is_said_and_the_next_reset_works(
    what: str, place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = make_single(place)
    assert see_in_single(env) == Sight(ENDS)
    with lacks(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        env.reset(options=FAULTY)
    assert matches(LACKS[what], str(caught.value))
    _, info = env.reset(options=FAULTY)
    with lacks(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        env.fork()
    assert matches(LACKS[what], str(caught.value))
    assert take_steps(env, info)[0] == Sight(ENDS)
    env.close()


@pytest.mark.parametrize("what", LACKS)
def test_what_lacks_is_said_by_a_vector_environment(
    what: str, place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    envs = make_vector(place)
    sound_vector(envs)
    with lacks(what, monkeypatch, tmp_path), pytest.raises(MlgoError) as caught:
        envs.reset(options={"module": "sound"})
    assert matches(f"environment 0: {LACKS[what]}", str(caught.value))
    sound_vector(envs)
    envs.close()


def test_a_machine_that_had_no_room_when_copies_were_tried_makes_them_later(
    place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    supported, why = snapshot_support()
    if not supported:
        pytest.skip(why)
    snapshot_support_module._tried.cache_clear()
    with no_space(monkeypatch, tmp_path):
        assert not snapshot_support()[0]
    assert snapshot_support()[0]


def test_a_scratch_folder_that_disappears_is_made_again(place: Place, faults: Faults) -> None:
    env, envs = make_single(place), make_vector(place)
    for _ in range(2):
        shutil.rmtree(scratch.scratch_root())
        assert see_in_single(env) == Sight(ENDS)
        shutil.rmtree(scratch.scratch_root())
        sound_vector(envs)
    shutil.rmtree(scratch.scratch_root())
    _, info = env.reset(options=FAULTY)
    shutil.rmtree(scratch.scratch_root())
    twin = env.fork()
    assert take_steps(twin, info)[0] == take_steps(env, info)[0] == Sight(ENDS)
    for each in (env, envs, twin):
        each.close()


def test_an_object_larger_than_a_file_may_be_is_the_compilers_failure(place: Place, faults: Faults) -> None:
    env = make_single(place)
    assert see_in_single(env) == Sight(ENDS)
    with limited(resource.RLIMIT_FSIZE, 64):
        sight = see_in_single(env)
    assert (sight.where, sight.kind) == ("step", "signal")
    assert "SIGXFSZ" in sight.message
    assert see_in_single(env) == Sight(ENDS)
    env.close()


def test_a_compiler_that_gets_too_little_memory_to_start_is_reported(
    place: Place, faults: Faults, tmp_path: Path
) -> None:
    zig, mode = bundled_command()
    starved = tmp_path / "starved"
    starved.write_text(
        f'#!/bin/sh\ncase "$*" in *faulty*channel*) ulimit -v 150000 ;; esac\nexec "{zig}" {mode} "$@"\n'
    )
    starved.chmod(0o755)
    corpus = tmp_path / "corpus"
    shutil.copytree(place.corpus, corpus)
    env = make_single(Place(str(starved), str(corpus), place.source))
    with pytest.raises(CompilerError) as caught:
        env.reset(options=FAULTY)
    assert caught.value.kind == "signal"
    _, info = env.reset(options={"module": "sound"})
    assert take_steps(env, info)[0] == Sight(ENDS)
    env.close()


# A host that does not want to know how its children end


@contextmanager
def ignoring_children() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_host_that_ignores_the_end_of_its_children_is_told(place: Place, faults: Faults) -> None:
    env, envs = make_single(place), make_vector(place)
    with ignoring_children():
        with pytest.raises(MlgoError, match=IGNORING):
            env.reset(options=FAULTY)
        with pytest.raises(MlgoError, match=IGNORING):
            envs.reset(options=FAULTY)
    assert see_in_single(env) == Sight(ENDS)
    sound_vector(envs)
    for each in (env, envs):
        each.close()


def test_the_commands_heed_the_end_of_their_children(tmp_path: Path) -> None:
    (tmp_path / "calls.c").write_text("static int f(int n) { return n * n; } int g(int n) { return f(n) + f(2); }\n")
    words = ["--mlgo-policy=never", "--mlgo-strict", "-Oz", "-c", "calls.c"]
    evaluation = ["evaluate", INLINE, "--corpus", "builtin", "--limit", "1", "--policy", "never", "--output", "run"]
    with ignoring_children():
        for program, arguments in ((DRIVERS["gcc"], words), (DRIVERS["gcc"].with_name("mlgo-gym"), evaluation)):
            with subprocess.Popen([program, *arguments], cwd=tmp_path, stderr=subprocess.PIPE) as started:
                _, said = started.communicate()
            assert b"error" not in said.lower()
    assert (tmp_path / "calls.o").exists()
    assert '"done"' in (tmp_path / "run" / "episodes.jsonl").read_text()


# Two hosts, and the time


BOTH = """
import gymnasium as gym, mlgo_gym, json, sys
env = gym.make(ENV, corpus=CORPUS, observation="vector").unwrapped
_, info = env.reset(options={"module": "faulty"})
over = False
while not over:
    *_, over, _, info = env.step(info["default_action"])
print(json.dumps(info, default=str))
"""


def test_two_hosts_share_a_cache(place: Place, faults: Faults, own_cache: Path) -> None:
    program = BOTH.replace("ENV", repr(INLINE)).replace("CORPUS", repr(place.corpus))
    hosts = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = {host.communicate(timeout=60)[0] for host in hosts}
    assert [host.returncode for host in hosts] == [0, 0]
    assert len(told) == 1
    assert not [path for path in own_cache.rglob("*") if path.is_file() and path.name.startswith((".", "tmp"))]


@pytest.mark.parametrize("hours", [-8766, 8766])
def test_a_clock_that_jumps_changes_nothing(
    hours: int, place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return clock() + 3600.0 * hours * (calls % 2)

    monkeypatch.setattr(time, "time", jumping)
    env: CompilerEnv = make_single(place)
    envs: CompilerVectorEnv = make_vector(place)
    _, info = env.reset(options=FAULTY)
    twin = env.fork()
    time.time()
    assert take_steps(twin, info)[0] == take_steps(env, info)[0] == Sight(ENDS)
    sound_vector(envs)
    for each in (env, envs, twin):
        each.close()
