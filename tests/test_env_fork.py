"""`CompilerEnv.fork()`: independent environments at the same decision, by snapshot or by replay."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, JointEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.errors import ActionError, SnapshotError
from tests.conftest import MakeBitcode
from tests.fakes.compiles import running_compile
from tests.fakes.no_ptrace import NO_PTRACE
from tests.fakes.stepping import clang_of
from tests.traces import alive

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MOST = 30
"""Random evictions can go on for very long."""

KINDS = [InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv, JointEnv]


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> Path:
    """A module that raises decisions of every kind."""
    return make_bitcode("mixed.c")


def refuse(session: Session, timeout: float = 0.0) -> Session:
    """Take the place of `Session.fork` on a machine that has no snapshots."""
    raise SnapshotError("not here")


@pytest.fixture(params=["snapshot", "replay"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How forks are made."""
    supported, why = snapshot_support()
    if request.param == "replay":
        # A process that must not trace cannot be undone; the last test of this file runs in one.
        monkeypatch.setattr(Session, "fork", refuse)
    elif not supported and "not permitted" in why:
        pytest.skip(why)
    name: str = request.param
    return name


@pytest.fixture
def env(mixed: Path) -> Iterator[InlineEnv]:
    made = InlineEnv(corpus=str(mixed))
    yield made
    made.close()


def legal_action(env: CompilerEnv, chance: np.random.Generator) -> Any:
    mask = env.action_masks()
    if mask is not None:
        return int(chance.choice(np.flatnonzero(mask)))
    return chance.uniform(0, 1, env.action_space.shape or ()).astype(np.float32)


def go_on(env: CompilerEnv, seed: int, steps: int = 10**6) -> list[tuple[Any, ...]]:
    """Take random legal actions; return what the steps returned, observations as text."""
    chance = np.random.default_rng(seed)
    seen: list[tuple[Any, ...]] = []
    while len(seen) < steps and not (seen and (seen[-1][2] or seen[-1][3])):
        observation, *rest = env.step(legal_action(env, chance))
        seen.append((repr(observation), *rest[:-1], repr(rest[-1])))
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_forks_of_every_kind_go_on_as_their_original(
    kind: Callable[..., CompilerEnv], mixed: Path, method: str
) -> None:
    env = kind(corpus=str(mixed), max_decisions=MOST)
    env.reset(seed=1)
    go_on(env, 1, steps=2)
    fork = env.fork()
    assert (env.fork_method, fork.fork_method) == (None, method)
    assert type(fork) is type(env)
    assert fork.corpus is env.corpus
    again = fork.fork()
    assert len({clang_of(one) for one in (env, fork, again)}) == 3
    try:
        expected = go_on(env, 2)
        assert len(expected) > 2
        assert expected[-1][2]
        env.close()
        assert go_on(fork, 2) == expected
        fork.close()
        assert alive(clang_of(again))
        assert go_on(again, 2) == expected
    finally:
        for one in (env, fork, again):
            one.close()


def test_a_fork_that_decides_otherwise_or_is_reset_has_no_effect_on_the_original(env: InlineEnv, method: str) -> None:
    env.reset(seed=1)
    sizes = []
    for action in (0, 1):
        with env.fork() as fork:
            done = False
            while not done:
                _, _, done, _, info = fork.step(action)
            sizes.append(info["text"])
            assert fork.reset(options={"module": env.corpus[0].name})[1]["decision_index"] == 0
    assert sizes[0] != sizes[1]
    assert env.step(0)[4]["decision_index"] == 1


def test_random_generators_go_on_alike_and_apart(env: InlineEnv) -> None:
    env.reset(seed=5)
    env.action_space.seed(6)
    with env.fork() as fork:
        assert fork.np_random.integers(1 << 60) == env.np_random.integers(1 << 60)
        assert [fork.action_space.sample() for _ in range(40)] == [env.action_space.sample() for _ in range(40)]
        assert fork.np_random is not env.np_random
        assert fork.action_space is not env.action_space


@pytest.mark.filterwarnings("ignore:a waiting clang could not be copied")
@pytest.mark.parametrize(
    ("kind", "options", "function"),
    [
        (InlineEnv, {"max_decisions": 3}, None),
        (RegAllocEvictEnv, {"scope": "function", "max_decisions": MOST}, "crowd"),
    ],
)
def test_a_budget_of_decisions_and_the_scope_of_a_function_hold_in_the_fork(
    kind: Callable[..., CompilerEnv], options: dict[str, Any], function: str | None, mixed: Path, method: str
) -> None:
    with kind(corpus=str(mixed), **options) as env:
        chosen = {"function": function} if function else {}
        _, info = env.reset(seed=1, options={"module": env.corpus[0].name, **chosen})
        assert function in (None, info["context"])
        if function is None:
            go_on(env, 1, steps=2)
        with env.fork() as fork:
            expected = go_on(env, 3)
            assert function or (len(expected), "'decisions': 3" in expected[0][4]) == (1, True)
            assert go_on(fork, 3) == expected


def test_a_fork_is_taken_from_inside_the_wrappers_at_a_decision_only(mixed: Path) -> None:
    env: Any = gym.make("mlgo/Inline-v0", corpus=str(mixed))
    with pytest.raises(ActionError, match=r"reset\(\)"):
        env.unwrapped.fork()
    env.reset(seed=1)
    with env.unwrapped.fork() as fork:
        assert fork.spec == env.unwrapped.spec
        assert fork.step(0)[4]["decision_index"] == 1
    go_on(env.unwrapped, 1)
    with pytest.raises(ActionError, match=r"reset\(\)"):
        env.unwrapped.fork()
    env.close()


def test_a_clang_that_has_died_is_replaced_by_a_replay(env: InlineEnv) -> None:
    env.reset(seed=1)
    running_compile(env).kill()
    with env.fork() as fork:
        assert fork.fork_method == "replay"
        assert "expected a pending decision" in fork.fork_reason
        assert env.fork_reason == ""
        assert go_on(fork, 1)[-1][2]


@pytest.mark.parametrize("kind", [InlineEnv, JointEnv])
def test_a_replay_that_comes_to_another_decision_is_refused(
    kind: Callable[..., CompilerEnv], make_bitcode: MakeBitcode, mixed: Path, tmp_path: Path
) -> None:
    bitcode = tmp_path / "module.bc"
    bitcode.write_bytes(mixed.read_bytes())
    with kind(corpus=str(bitcode)) as env:
        env.reset(seed=1)
        go_on(env, 1, steps=2)
        running_compile(env).kill()
        bitcode.write_bytes(make_bitcode("calls.c").read_bytes())
        with pytest.raises(SnapshotError, match="after 2 replayed answers, got another"):
            env.fork()


@pytest.mark.parametrize("scope", ["module", "function"])
def test_episodes_with_forks_leave_nothing_in_memory(scope: str, mixed: Path) -> None:
    left = []
    with RegAllocPriorityEnv(corpus=str(mixed), max_decisions=2, scope=scope) as env:
        for number in range(3):
            env.reset(seed=number)
            with env.fork() as fork, env.fork() as second:
                assert go_on(fork, number)[-1][2]
                left += [weakref.ref(fork), weakref.ref(second)]
        env.reset()
        del fork, second
        gc.collect()
        assert not any(reference() for reference in left)


PROGRAM = """
import sys
from mlgo_gym.envs import InlineEnv
env = InlineEnv(corpus=sys.argv[1])
env.reset(seed=1)
env.step(1)
fork = env.fork()
print(fork.fork_method, fork.step(0)[4]["decision_index"])
fork.close()
env.close()
"""


def test_where_ptrace_is_denied_forks_are_replays(mixed: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", NO_PTRACE + PROGRAM, str(mixed)], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.stderr == ""
    assert said.stdout == "replay 2\n"
