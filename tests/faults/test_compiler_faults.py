"""A compiler that fails, in every way, wherever it is run: the right error in bounded time, and the next one works."""

from __future__ import annotations

import shutil

import pytest

from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.forkable_session import ForkableSession
from mlgo_gym.session.snapshot_support import snapshot_support
from tests.conftest import PROGRAMS
from tests.faults.catalogue import ENDS, FAULTS, Fault, Sight, matches
from tests.faults.conftest import Faults
from tests.faults.hosts import (
    FAULTY,
    LONG,
    SHORT,
    Place,
    drive,
    make_single,
    make_vector,
    patience,
    see_in_fork,
    see_in_single,
    see_in_vector,
    sound_vector,
    take_steps,
)

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])

SLOW = ("stall@header", "stall@question", "stall@end")
"""What takes its time, and is quick to see in a single environment."""

each_fault_again = pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.name, marks=[pytest.mark.slow] if fault.name in SLOW else []) for fault in FAULTS],
)


@pytest.fixture
def cache_of(fault: Fault, request: pytest.FixtureRequest) -> None:
    """An empty cache where the fault is taken for what the compiler does, and remembered."""
    if fault.sight.error == "NoDecisionError":
        request.getfixturevalue("own_cache")


def stalls(fault: Fault) -> bool:
    return fault.sight.kind == "timeout"


def check(found: Sight, fault: Fault) -> None:
    wanted = fault.sight
    assert (found.where, found.error, found.kind) == (wanted.where, wanted.error, wanted.kind), found
    assert matches(wanted.message, found.message), found.message
    assert wanted.words in found.words
    assert len(found.words) <= 64 * 1024


@each_fault
def test_in_an_environment(fault: Fault, place: Place, faults: Faults, cache_of: None) -> None:
    env = make_single(place)
    patience(env, SHORT if stalls(fault) else LONG)
    faults.begin(fault.spec)
    check(see_in_single(env), fault)
    faults.end()
    patience(env, LONG)
    if fault.sight.error != "NoDecisionError":  # which is remembered
        assert see_in_single(env) == Sight(ENDS)
    env.close()


@each_fault_again
def test_in_a_vector_environment(fault: Fault, place: Place, faults: Faults, cache_of: None) -> None:
    envs = make_vector(place)
    # Both see a baseline from the disk, so that the sound one is quick.
    patience(envs, 2 * SHORT if stalls(fault) else LONG)
    faults.begin(fault.spec)
    check(see_in_vector(envs), fault)
    faults.end()
    patience(envs, LONG)
    if fault.sight.error != "NoDecisionError":
        sound_vector(envs)
    envs.close()


@each_fault_again
def test_in_a_fork(fault: Fault, place: Place, faults: Faults, cache_of: None, monkeypatch: pytest.MonkeyPatch) -> None:
    supported, why = snapshot_support()
    if not (fault.before_fork or supported):
        pytest.skip(why)
    env = make_single(place)
    patience(env, SHORT if stalls(fault) else LONG)
    if not fault.before_fork:
        faults.begin(fault.spec)
    _, info = env.reset(options=FAULTY)
    if fault.before_fork:
        faults.begin(fault.spec)

        def refuse(session: ForkableSession, timeout: float = 0.0) -> ForkableSession:
            raise SnapshotError("not here")

        monkeypatch.setattr(ForkableSession, "fork", refuse)
    found = see_in_fork(env, info)
    if fault.before_fork and fault.sight.kind == "":
        assert found.error == "SnapshotError", found
    else:
        check(found, fault)
    faults.end()
    patience(env, LONG)
    _, info = env.reset(options=FAULTY)
    assert take_steps(env, info)[0] == Sight(ENDS)
    env.close()


@pytest.fixture(scope="session")
def source(place: Place) -> Place:
    """The source of the faulty module."""
    shutil.copy(PROGRAMS / "calls.c", place.source)
    return place


@pytest.fixture(scope="session")
def plain(source: Place) -> bytes:
    """What clang alone makes of it."""
    assert drive(source, "--mlgo-policy=default").returncode == 0
    return source.source.with_suffix(".o").read_bytes()


in_driver = [fault for fault in FAULTS if fault.driver is not None]


@pytest.mark.parametrize("fault", in_driver, ids=[fault.name for fault in in_driver])
def test_in_the_driver(fault: Fault, source: Place, plain: bytes, faults: Faults, own_cache: object) -> None:
    faults.begin(fault.spec)
    output = source.source.with_suffix(".o")
    output.unlink(missing_ok=True)
    done = drive(source, "--mlgo-policy=never", *(["--mlgo-timeout=0.6"] if stalls(fault) else []))
    assert done.returncode == 0
    if fault.driver:
        assert matches(f"mlgo-clang: warning: faulty.c is compiled by clang alone: {fault.driver}", done.stderr)
        assert done.stderr.count("\n") == 1
        assert output.read_bytes() == plain
    else:
        assert done.stderr == ""
        assert output.exists()
