"""Episodes that are one function's allocation: they end with it, and tell what a whole compile tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.envs.regalloc_evict import RegAllocEvictVectorEnv
from mlgo_gym.episode import episode as episode_module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.snapshot_support import snapshot_support
from tests.conftest import MakeBitcode, clang_argument

pytestmark = pytest.mark.usefixtures("nothing_is_left")

KINDS = [RegAllocEvictEnv, RegAllocPriorityEnv]

needs_snapshots = pytest.mark.skipif(not snapshot_support()[0], reason=f"no snapshots here: {snapshot_support()[1]}")


@pytest.fixture(scope="module")
def spills(make_bitcode: MakeBitcode) -> str:
    """A module of two functions that spill, `straight` and `looping`, and one that does not, `easy`."""
    return str(make_bitcode("spills.c"))


def play(env: CompilerEnv, function: str, seed: int = 0) -> tuple[float, dict[str, Any]]:
    """Answer some of a function's decisions at random; return the reward and the last info."""
    chance = np.random.default_rng(seed)
    _, info = env.reset(options={"module": env.corpus[0].name, "function": function})
    over, reward = False, 0.0
    while not over:
        action = info["default_action"]
        if chance.random() < 0.5:
            mask = info.get("action_mask")
            action = chance.random(1, np.float32) if mask is None else int(chance.choice(np.flatnonzero(mask)))
        _, reward, over, truncated, info = env.step(action)
        assert not truncated
    return float(reward), info


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", ["spills.c", "pressure.c", "mixed.c"])
def test_every_function_is_told_as_a_whole_compile_tells_it(
    kind: Callable[..., CompilerEnv], program: str, make_bitcode: MakeBitcode
) -> None:
    bitcode = str(make_bitcode(program))
    options: dict[str, Any] = {"corpus": bitcode, "scope": "function", "max_decisions": 60}
    ours, whole = kind(**options), kind(**options, reward="relative", metric="text")
    rewards = set()
    for seed, function in enumerate(ours.decisions(ours.corpus[0])):
        reward, info = play(ours, function, seed)
        _, wanted = play(whole, function, seed)
        assert "text" in wanted
        assert "text" not in info
        for name in ("spill_cost", "spill_count", "baseline_spill_cost", "functions", "decisions", "handed_over"):
            assert info[name] == wanted[name], (function, name)
        cost, baseline = wanted["spill_cost"], wanted["baseline_spill_cost"]
        assert reward == info["reduction"] == (baseline - cost) / max(baseline, 1.0)
        rewards.add(reward)
    assert rewards
    ours.close()
    whole.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_installed_clang_tells_it(
    kind: Callable[..., CompilerEnv], make_bitcode: MakeBitcode, any_toolchain: Toolchain
) -> None:
    clang = clang_argument(any_toolchain)
    bitcode = str(make_bitcode("spills.c", compiler=any_toolchain))
    ours, whole = (
        kind(corpus=bitcode, clang=clang, scope="function", metric=metric) for metric in ("spill_cost", "text")
    )
    info, wanted = (play(env, "looping")[1] for env in (ours, whole))
    assert info["functions"] == wanted["functions"]
    assert info["spill_cost"] != info["baseline_spill_cost"]
    ours.close()
    whole.close()


def test_costs_are_kept_apart_where_the_function_before_spilled(spills: str) -> None:
    env = RegAllocPriorityEnv(corpus=spills, scope="function", compile_options={"fork_resets": False})
    assert play(env, "easy")[1]["spill_cost"] == 0
    assert play(env, "looping")[1]["spill_cost"] > 0
    env.close()


@needs_snapshots
@pytest.mark.parametrize("kind", KINDS)
def test_whichever_clang_an_episode_starts_from_it_is_the_same(kind: Callable[..., CompilerEnv], spills: str) -> None:
    cold = kind(corpus=spills, scope="function", compile_options={"fork_resets": False})
    warm = kind(corpus=spills, scope="function")
    wanted = {function: play(cold, function) for function in ("straight", "looping")}
    methods = []
    # Fresh; a copy of the clang that waits at the function before; of the one at the function itself; the first again.
    for function in ("straight", "looping", "looping", "straight"):
        warm.reset(options={"module": "spills", "function": function})
        assert warm._stepper is not None
        methods.append(warm._stepper.episode.fork_method)
        assert play(warm, function) == wanted[function]
    assert methods == [None, "snapshot", "snapshot", "snapshot"]
    cold.close()
    warm.close()


@needs_snapshots
def test_a_clang_that_waits_further_on_is_no_start_for_an_earlier_function(spills: str) -> None:
    env = RegAllocEvictEnv(corpus=spills, scope="function")
    for function in ("looping", "straight"):
        _, info = env.reset(options={"module": "spills", "function": function})
        assert env._stepper is not None
        assert (info["context"], env._stepper.episode.fork_method) == (function, None)
    env.close()


def test_many_at_once_are_rewarded_as_one_after_the_other(spills: str) -> None:
    single = RegAllocEvictEnv(corpus=spills, scope="function", max_decisions=1)
    envs = RegAllocEvictVectorEnv(2, corpus=spills, scope="function", max_decisions=1)
    functions = ["straight", "looping"]
    envs.reset(options={"module": "spills", "function": functions})
    _, rewards, terminations, _, _ = envs.step(np.array([32, 32]))
    assert terminations.all()
    for function, found in zip(functions, rewards, strict=True):
        single.reset(options={"module": "spills", "function": function})
        assert single.step(32)[1] == found
    single.close()
    envs.close()


def test_a_clang_that_does_not_tell_is_an_error_and_no_reward(spills: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_module, "REMARK_FLAGS", ())
    env = RegAllocEvictEnv(corpus=spills, scope="function")
    with pytest.raises(MlgoError, match="expected the costs of register allocation"):
        play(env, "straight")
    env.close()


def test_a_size_is_the_reward_of_a_compile_that_goes_to_its_end(spills: str) -> None:
    env = RegAllocEvictEnv(corpus=spills, scope="function", metric="text")
    reward, info = play(env, "looping")
    assert reward == pytest.approx(1 - info["text"] / info["baseline_text"])
    env.close()
