"""`CompilerEnv.fork()`: independent environments at the same decision, by snapshot or by replay."""

import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, JointEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.errors import ActionError, SnapshotError
from tests.conftest import MakeBitcode
from tests.envs.test_registered import legal_action
from tests.fakes.compiles import running_compile
from tests.fakes.no_ptrace import without_ptrace
from tests.fakes.stepping import clang_of
from tests.traces import alive

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MOST = 30
"""Random evictions can go on for very long."""

KINDS = [
    InlineEnv,
    RegAllocEvictEnv,
    RegAllocPriorityEnv,
    JointEnv,
    partial(RegAllocEvictEnv, scope="function"),
]


@pytest.fixture(scope="module")
def mixed(make_bitcode: MakeBitcode) -> Path:
    """A module that raises decisions of every kind."""
    return make_bitcode("mixed.c")


@pytest.fixture
def env(mixed: Path) -> Iterator[InlineEnv]:
    with InlineEnv(corpus=str(mixed)) as made:
        yield made


def go_on(env: CompilerEnv, seed: int, steps: int = 10**6) -> list[tuple[Any, ...]]:
    """Take random legal actions; return what the steps returned, observations as text."""
    chance = np.random.default_rng(seed)
    seen: list[tuple[Any, ...]] = []
    while len(seen) < steps and not (seen and (seen[-1][2] or seen[-1][3])):
        observation, *rest = env.step(legal_action(env, chance))
        seen.append((repr(observation), *rest[:-1], repr(rest[-1])))
    return seen


@pytest.mark.filterwarnings("ignore:a waiting clang could not be copied")
@pytest.mark.parametrize("method", ["snapshot", "replay"])
@pytest.mark.parametrize("kind", KINDS)
def test_forks_of_every_kind_equal_their_original(kind: Callable[..., CompilerEnv], mixed: Path, method: str) -> None:
    """Forks are replays where ptrace is denied."""
    supported, why = snapshot_support()
    if method == "snapshot" and not supported:
        pytest.skip(why)

    def run() -> None:
        with kind(corpus=str(mixed), max_decisions=MOST) as env:
            env.reset(seed=1)
            env.action_space.seed(6)
            go_on(env, 1, steps=2)
            with env.fork() as fork, fork.fork() as again:
                assert (env.fork_method, fork.fork_method) == (None, method)
                assert type(fork) is type(env)
                assert fork.corpus is env.corpus
                assert len({clang_of(one) for one in (env, fork, again)}) == 3
                assert fork.np_random is not env.np_random
                assert fork.np_random.integers(1 << 60) == env.np_random.integers(1 << 60)
                assert fork.action_space is not env.action_space
                assert [fork.action_space.sample() for _ in range(9)] == [env.action_space.sample() for _ in range(9)]
                expected = go_on(env, 2)
                assert len(expected) > 2
                assert expected[-1][2]
                env.close()
                assert go_on(fork, 2) == expected
                fork.close()
                assert alive(clang_of(again))
                assert go_on(again, 2) == expected

    without_ptrace(run) if method == "replay" else run()


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
