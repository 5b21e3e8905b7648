"""Every fault of a compiler in every host: the expected outcome in bounded time, and the next episode works."""

from __future__ import annotations

import shutil

import pytest

from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.session import Session
from mlgo_gym.session.snapshot_support import snapshot_support
from tests.conftest import PROGRAMS
from tests.faults.catalogue import ENDS, FAULTS, Fault, Outcome, matches
from tests.faults.conftest import Faults
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
    set_timeout,
    take_steps,
)
from tests.sampling import one_of_each

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])


def outcome_of(fault: Fault) -> tuple[str, ...]:
    return (fault.outcome.where, fault.outcome.error, fault.outcome.kind, fault.driver or "")


each_outcome = pytest.mark.parametrize("fault", one_of_each(FAULTS, outcome_of, name=lambda fault: fault.name))
"""A fault of each outcome; a single environment has every fault in each run."""


@pytest.fixture
def cache_of(fault: Fault, request: pytest.FixtureRequest) -> None:
    """An empty cache for a fault whose result is cached."""
    if fault.outcome.error == "NoDecisionError":
        request.getfixturevalue("own_cache")


def stalls(fault: Fault) -> bool:
    return fault.outcome.kind == "timeout"


def check(found: Outcome, fault: Fault) -> None:
    expected = fault.outcome
    assert (found.where, found.error, found.kind) == (expected.where, expected.error, expected.kind), found
    assert matches(expected.message, found.message), found.message
    assert expected.stderr in found.stderr
    assert len(found.stderr) <= 64 * 1024


@each_fault
def test_in_an_environment(fault: Fault, compiler: FaultyCompiler, faults: Faults, cache_of: None) -> None:
    env = make_single(compiler)
    set_timeout(env, SHORT if stalls(fault) else LONG)
    faults.enable(fault.spec)
    check(run_single(env), fault)
    faults.disable()
    set_timeout(env, LONG)
    if fault.outcome.error != "NoDecisionError":  # which is cached
        assert run_single(env) == Outcome(ENDS)
    env.close()


@each_outcome
def test_in_a_vector_environment(fault: Fault, compiler: FaultyCompiler, faults: Faults, cache_of: None) -> None:
    envs = make_vector(compiler)
    # Both baselines are cached, so that the sound module is fast.
    set_timeout(envs, 2 * SHORT if stalls(fault) else LONG)
    faults.enable(fault.spec)
    check(run_vector(envs), fault)
    faults.disable()
    set_timeout(envs, LONG)
    if fault.outcome.error != "NoDecisionError":
        run_sound_vector(envs)
    envs.close()


@each_outcome
def test_in_a_fork(
    fault: Fault, compiler: FaultyCompiler, faults: Faults, cache_of: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    supported, why = snapshot_support()
    if not (fault.before_fork or supported):
        pytest.skip(why)
    env = make_single(compiler)
    set_timeout(env, SHORT if stalls(fault) else LONG)
    if not fault.before_fork:
        faults.enable(fault.spec)
    _, info = env.reset(options=FAULTY)
    if fault.before_fork:
        faults.enable(fault.spec)

        def refuse(session: Session, timeout: float = 0.0) -> Session:
            raise SnapshotError("no snapshots")

        monkeypatch.setattr(Session, "fork", refuse)
    found = run_fork(env, info)
    if fault.before_fork and fault.outcome.kind == "":
        assert found.error == "SnapshotError", found
    else:
        check(found, fault)
    faults.disable()
    set_timeout(env, LONG)
    _, info = env.reset(options=FAULTY)
    assert take_steps(env, info)[0] == Outcome(ENDS)
    env.close()


@pytest.fixture(scope="session")
def source(compiler: FaultyCompiler) -> FaultyCompiler:
    """The source of the faulty module."""
    shutil.copy(PROGRAMS / "calls.c", compiler.source)
    return compiler


@pytest.fixture(scope="session")
def plain(source: FaultyCompiler) -> bytes:
    """The object of clang alone."""
    assert run_driver(source, "--mlgo-policy=default").returncode == 0
    return source.source.with_suffix(".o").read_bytes()


in_driver = [fault for fault in FAULTS if fault.driver is not None]


@pytest.mark.parametrize("fault", one_of_each(in_driver, outcome_of, name=lambda fault: fault.name))
def test_in_the_driver(fault: Fault, source: FaultyCompiler, plain: bytes, faults: Faults, own_cache: object) -> None:
    faults.enable(fault.spec)
    output = source.source.with_suffix(".o")
    output.unlink(missing_ok=True)
    result = run_driver(source, "--mlgo-policy=never", *(["--mlgo-timeout=0.6"] if stalls(fault) else []))
    assert result.returncode == 0
    if fault.driver:
        assert matches(f"mlgo-clang: warning: faulty.c is compiled by clang alone: {fault.driver}", result.stderr)
        assert result.stderr.count("\n") == 1
        assert output.read_bytes() == plain
    else:
        assert result.stderr == ""
        assert output.exists()
