"""Every fault of a compiler in every host: the expected outcome in bounded time, and the next episode works."""

import signal
import struct
import subprocess
from operator import attrgetter
from pathlib import Path

import pytest

from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.envs import RegAllocEvictEnv
from tests.conftest import MakeBitcode
from tests.fakes.compiles import FaultyClang, running_compile
from tests.fakes.no_ptrace import without_ptrace
from tests.faults.catalogue import ENDS, FAULTS, Fault, Outcome, matches
from tests.faults.hosts import (
    FAULTY,
    LONG,
    SHORT,
    FaultyCompiler,
    make_single,
    make_vector,
    run_driver,
    run_fork,
    run_single,
    run_sound_vector,
    run_vector,
    take_steps,
)
from tests.sampling import one_of_each

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[fault.spec for fault in FAULTS])


spec_of = attrgetter("spec")

each_outcome = pytest.mark.parametrize(
    "fault",
    one_of_each(FAULTS, lambda fault: (fault.outcome.where, fault.outcome.error, fault.outcome.kind), name=spec_of),
)
"""A fault of each outcome; a single environment has every fault in each run."""

each_reason = pytest.mark.parametrize(
    "fault",
    one_of_each([fault for fault in FAULTS if fault.driver is not None], lambda fault: fault.driver, name=spec_of),
)
"""A fault of each reason in the warning of the driver."""


@pytest.fixture
def cache_of(fault: Fault, request: pytest.FixtureRequest) -> None:
    """An empty cache for a fault whose result is cached."""
    if fault.outcome.error == "NoDecisionError":
        request.getfixturevalue("own_cache")


def timeout_of(fault: Fault) -> float:
    return SHORT if fault.outcome.kind == "timeout" else LONG


def check(outcome: Outcome, fault: Fault) -> None:
    expected = fault.outcome
    assert (outcome.where, outcome.error, outcome.kind) == (expected.where, expected.error, expected.kind), outcome
    assert matches(expected.message, outcome.message), outcome.message
    assert expected.stderr in outcome.stderr
    assert len(outcome.stderr) <= 64 * 1024


@each_fault
def test_in_an_environment(fault: Fault, compiler: FaultyCompiler, faults: FaultyClang, cache_of: None) -> None:
    with make_single(compiler, timeout_of(fault)) as env:
        faults.set_fault(fault.spec)
        check(run_single(env), fault)
        faults.set_fault("")
        if fault.outcome.error != "NoDecisionError":  # which is cached
            assert run_single(env) == Outcome(ENDS)


@each_outcome
def test_in_a_vector_environment(fault: Fault, compiler: FaultyCompiler, faults: FaultyClang, cache_of: None) -> None:
    envs = make_vector(compiler, timeout_of(fault))
    faults.set_fault(fault.spec)
    check(run_vector(envs), fault)
    faults.set_fault("")
    if fault.outcome.error != "NoDecisionError":
        run_sound_vector(envs)
    envs.close()


@each_outcome
def test_in_a_fork(fault: Fault, compiler: FaultyCompiler, faults: FaultyClang, cache_of: None) -> None:
    supported, reason = snapshot_support()
    if not (fault.before_fork or supported):
        pytest.skip(reason)
    with make_single(compiler, timeout_of(fault)) as env:

        def run() -> Outcome:
            if not fault.before_fork:
                faults.set_fault(fault.spec)
            _, info = env.reset(options=FAULTY)
            # Only a replay passes the first decision again.
            faults.set_fault(fault.spec)
            return run_fork(env, info)

        outcome = without_ptrace(run) if fault.before_fork else run()
        if fault.before_fork and fault.outcome.kind == "":
            assert outcome.error == "SnapshotError", outcome
        else:
            check(outcome, fault)
        faults.set_fault("")
        _, info = env.reset(options=FAULTY)
        assert take_steps(env, info)[0] == Outcome(ENDS)


@pytest.fixture(scope="session")
def plain(compiler: FaultyCompiler) -> bytes:
    """The object of clang alone."""
    assert run_driver(compiler, "--mlgo-policy=default").returncode == 0
    return compiler.source.with_suffix(".o").read_bytes()


@each_reason
def test_in_the_driver(
    fault: Fault, compiler: FaultyCompiler, plain: bytes, faults: FaultyClang, own_cache: object
) -> None:
    faults.set_fault(fault.spec)
    output = compiler.source.with_suffix(".o")
    output.unlink(missing_ok=True)
    timeout = ["--mlgo-timeout=0.6"] if fault.outcome.kind == "timeout" else []
    result = run_driver(compiler, "--mlgo-policy=never", *timeout)
    assert result.returncode == 0
    if fault.driver:
        assert matches(f"mlgo-clang: warning: faulty.c is compiled by clang alone: {fault.driver}", result.stderr)
        assert result.stderr.count("\n") == 1
        assert output.read_bytes() == plain
    else:
        assert result.stderr == ""
        assert output.exists()


@pytest.mark.usefixtures("nothing_is_left")
def test_clang_alone_repeats_a_crash_with_command_and_answers(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    """As the page of faults describes a report to LLVM: zeros follow the answers, because clang waits at their end."""
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")), compile_options={"preoptimize": False})
    _, info = env.reset(seed=0)
    env.step(info["default_action"])
    # clang 20 and newer crash at the eviction of a register that must not be evicted.
    error = running_compile(env).answer(struct.pack("<q", 40))["error"]
    env.close()
    assert error["exit_status"] == -signal.SIGSEGV
    option = "-regalloc-evict-interactive-channel-base="
    command = [f"{option}answers" if word.startswith(option) else word for word in error["command"]]
    command = ["record.yaml" if word.startswith("/proc/self/fd/") else word for word in command]
    (tmp_path / "answers.in").write_bytes(bytes.fromhex(error["answers"]) + bytes(1 << 16))
    alone = subprocess.run(command, cwd=tmp_path, stderr=subprocess.DEVNULL, check=False, timeout=60)
    assert alone.returncode == -signal.SIGSEGV
