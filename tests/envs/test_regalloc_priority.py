"""`mlgo/RegAllocPriority-v0`."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.envs import RegAllocPriorityEnv
from mlgo_gym.envs.regalloc_priority import SCALE, size_order
from mlgo_gym.errors import ActionError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.feature_table import stage_names
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.drive import play

pytestmark = pytest.mark.usefixtures("nothing_is_left")

HIGHEST = 4294967040
"""The largest float32 below 2^32: beyond it clang's conversion wraps, or gives 0."""

ILLEGAL = [-1e-9, 1.0000002, 2, math.inf, -math.inf, np.array([2.0])]
NO_ACTIONS = [None, "first", [], [0.1, 0.2], np.array([])]
SPLIT, DONE = 2, 5

sizes, stages = st.integers(0, 2**32 - 1), st.integers(0, 6)


@pytest.fixture(scope="module")
def spills(make_bitcode: MakeBitcode) -> str:
    """A module of three functions, two of them with more values than registers."""
    return str(make_bitcode("spills.c"))


@pytest.fixture
def env(spills: str) -> Iterator[RegAllocPriorityEnv]:
    made = RegAllocPriorityEnv(corpus=spills)
    yield made
    made.close()


# Observations


def test_three_features_are_seen_and_one_number_is_wanted(env: RegAllocPriorityEnv) -> None:
    assert env.feature_names == ("li_size", "stage", "weight")
    assert env.observation_space.shape == (3,)
    assert env.action_space == gym.spaces.Box(0.0, 1.0, (1,), np.float32)


def test_both_forms_of_an_observation_say_the_same(spills: str) -> None:
    flat, raw = (RegAllocPriorityEnv(corpus=spills, observation=form) for form in ("flat", "dict"))
    vector, _ = flat.reset()
    tensors, info = raw.reset()
    assert {name: tensor.dtype.name for name, tensor in tensors.items()} == {
        "li_size": "int64",
        "stage": "int64",
        "weight": "float32",
    }
    while True:
        assert raw.observation_space.contains(tensors)
        assert vector.tolist() == [float(tensor[0]) for tensor in tensors.values()]
        vector, *_ = flat.step(info["default_action"])
        tensors, _, terminated, _, info = raw.step(info["default_action"])
        if terminated:
            break
    flat.close()
    raw.close()


def test_what_must_not_be_spilled_has_a_finite_weight_beyond_all_others(env: RegAllocPriorityEnv) -> None:
    weights = {step.observation[2] for step in play(env)}
    assert max(weights) == 2**53
    assert len(weights) > 2


def test_every_clang_names_the_stages_as_it_numbers_them(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    env = RegAllocPriorityEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), render_mode="ansi")
    observation, info = env.reset()
    shown = set()
    while "default_action" in info:
        text = env.render()
        assert isinstance(text, str)
        name = re.search(r"stage +(\w+)", text)
        assert name is not None
        shown.add((int(observation[1]), name[1], bool(observation[2] == 2**53)))
        observation, *_, info = env.step(info["default_action"])
    env.close()
    done = stage_names(any_toolchain.version[0]).index("done")
    assert done == (5 if any_toolchain.version[0] >= 21 else 6)
    # Spilling leaves live ranges of one instruction each; they are done and cannot be spilled again.
    assert (done, "done", True) in shown
    assert {name for _, name, _ in shown} == {"assign", "split", "split2", "spill", "done"}


# Actions


@given(sizes, stages, sizes, stages)
def test_longer_live_ranges_come_first_and_those_to_be_split_last(one: int, first: int, two: int, second: int) -> None:
    limit = 2**23 - 1
    actions = [np.float32(size_order(one, first)), np.float32(size_order(two, second))]
    keys = [(stage != SPLIT, min(size, limit)) for size, stage in ((one, first), (two, second))]
    assert (actions[0] < actions[1]) == (keys[0] < keys[1])
    assert (actions[0] == actions[1]) == (keys[0] == keys[1])
    assert 0 <= actions[0] <= 1


@pytest.mark.parametrize("action", [0, 1, 0.5, [0.5], np.array([0.25], np.float32), np.float64(0.125)], ids=repr)
def test_clang_receives_the_priority_as_float32(spills: str, action: Any) -> None:
    env = RegAllocPriorityEnv(corpus=spills)
    env.reset()
    assert env._stepper is not None
    assert env._stepper.decision is not None
    advice = env.task.encode(env._stepper.decision, action)
    assert advice == struct.pack("<f", SCALE * float(np.asarray(action).item()))
    assert 0 <= struct.unpack("<f", advice)[0] <= HIGHEST
    assert not env.step(action)[4].get("illegal_action")
    env.close()


def test_clang_says_that_it_received_the_priority(spills: str) -> None:
    env = RegAllocPriorityEnv(corpus=spills, compile_options={"echo_reply": True})
    stderr = play(env, 0.75)[-1].info["stderr"]
    assert {float(number) for number in re.findall(r"\d[\d.e+]*", stderr)} == {0.75 * SCALE}


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_a_number_outside_the_space_is_replaced_on_request(spills: str, action: Any) -> None:
    env = RegAllocPriorityEnv(corpus=spills, strict=False)
    env.reset()
    assert env.step(action)[4]["illegal_action"] is True
    env.close()


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_a_number_outside_the_space_raises(env: RegAllocPriorityEnv, action: Any) -> None:
    env.reset()
    with pytest.raises(ActionError, match=r"expected a legal action among Box\(0\.0, 1\.0"):
        env.step(action)
    assert not env.step(0.5)[4].get("illegal_action")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_number_raises_and_one_is_waited_for(spills: str, action: Any, strict: bool) -> None:
    env = RegAllocPriorityEnv(corpus=spills, strict=strict)
    env.reset()
    with pytest.raises(ActionError, match=r"expected an action, an element of Box\(0\.0, 1\.0.*, got"):
        env.step(action)
    assert not env.step(0.5)[4].get("illegal_action")
    env.close()


def test_random_priorities_never_fail_and_matter(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    env = RegAllocPriorityEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain))
    env.action_space.seed(0)
    costs = set()
    for _ in range(3):
        env.reset()
        while True:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            assert not truncated
            assert not info.get("illegal_action")
            if terminated:
                break
        costs.add(info["spill_cost"])
    env.close()
    assert len(costs) > 1


def test_the_order_of_sizes_comes_near_plain_clang(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    by_size, reversed_order = (
        RegAllocPriorityEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)) for _ in range(2)
    )
    reward = play(by_size)[-1].reward
    _, info = reversed_order.reset()
    while "default_action" in info:
        _, worse, *_, info = reversed_order.step(1 - info["default_action"])
    reversed_order.close()
    assert abs(reward) < 0.01
    assert worse < reward


# Rewards and scope


@pytest.mark.parametrize("metric", ["spill_cost", "spill_count", "text"])
def test_each_metric_can_be_the_reward(spills: str, metric: str) -> None:
    step = play(RegAllocPriorityEnv(corpus=spills, metric=metric), 0.5)[-1]
    assert step.info[metric] != step.info[f"baseline_{metric}"]
    assert step.reward == pytest.approx(1 - step.info[metric] / step.info[f"baseline_{metric}"])


def test_weights_are_arguments(spills: str) -> None:
    plain, doubled = (
        play(
            RegAllocPriorityEnv(
                corpus=spills,
                cost_weights={"spill": factor, "reload": 4 * factor, "copy": 0.0, "folded_reload": 0.0},
            ),
            0.5,
        )[-1].info
        for factor in (1.0, 2.0)
    )
    assert doubled["spill_cost"] == pytest.approx(2 * plain["spill_cost"])
    assert doubled["reduction"] == pytest.approx(plain["reduction"])


def test_an_episode_can_be_one_functions_decisions(spills: str) -> None:
    env = RegAllocPriorityEnv(corpus=spills, scope="function")
    _, info = env.reset(options={"module": "spills", "function": "easy"})
    decisions = 0
    while "default_action" in info:
        assert info["context"] == "easy"
        decisions += 1
        *_, info = env.step(0.5)
    assert [row["function"] for row in info["functions"]] == ["easy"]
    assert decisions == info["decisions"] == env.decisions(env.corpus[0])["easy"]
    assert info["spill_cost"] == info["baseline_spill_cost"] == 0
    assert info["reduction"] == 0
    env.close()
