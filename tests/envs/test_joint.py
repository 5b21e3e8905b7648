"""`mlgo/Joint-v0`."""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, JointEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.envs.joint import EVICTION, INLINING, PRIORITY, PRIORITY_FACTORS
from mlgo_gym.envs.regalloc_priority import SCALE, size_order
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.protocol import feature_vector
from tests.conftest import MakeBitcode
from tests.fakes.compiles import running_compile

pytestmark = pytest.mark.usefixtures("nothing_is_left")

COLUMNS = 33
ACTIONS = 2 + COLUMNS + len(PRIORITY_FACTORS)
RANGES = {INLINING: (0, 2), EVICTION: (2, 2 + COLUMNS), PRIORITY: (2 + COLUMNS, ACTIONS)}


@pytest.fixture(scope="module")
def many_calls(make_bitcode: MakeBitcode) -> str:
    """A module in which every advisor asks."""
    return str(make_bitcode("many_calls.c"))


@pytest.fixture
def env(many_calls: str) -> Iterator[JointEnv]:
    with JointEnv(corpus=many_calls) as made:
        yield made


def decisions(env: JointEnv, answer: Any = None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Go through an episode with clang's own choices, or the answers of a function, and give what is seen."""
    observation, info = env.reset()
    while "default_action" in info:
        yield observation, info
        observation, *_, info = env.step(info["default_action"] if answer is None else answer(info))


# Observations


def test_features_of_the_kind_and_the_mask_are_found_by_name(env: JointEnv) -> None:
    kinds, last = ["task_inlining", "task_eviction", "task_priority"], env.feature_names[-1]
    read = feature_vector("policy", env, [*kinds, last])
    masked = feature_vector("policy", env, ["action_mask[1]", *kinds[:1], last])
    for observation, _ in decisions(env):
        task, value = observation["task"], observation["observations"][-1]
        assert read(observation).tolist() == [task == INLINING, task == EVICTION, task == PRIORITY, value]
        assert masked(observation).tolist() == [observation["action_mask"][1], task == INLINING, value]


def test_inlining_comes_first_then_the_others_interleave_each_with_its_own_mask_and_words(many_calls: str) -> None:
    env = JointEnv(corpus=many_calls, render_mode="ansi")
    kinds: list[int] = []
    words: dict[int, str] = {}
    for observation, info in decisions(env):
        kinds.append(int(observation["task"]))
        words[kinds[-1]] = str(env.render()).partition(" ")[0]
        first, last = RANGES[kinds[-1]]
        allowed = np.flatnonzero(observation["action_mask"])
        assert first <= allowed[0]
        assert allowed[-1] < last
        assert kinds[-1] == EVICTION or len(allowed) == last - first
        np.testing.assert_array_equal(observation["action_mask"], info["action_mask"])
        assert observation["action_mask"][info["default_action"]]
    assert {*kinds} == {INLINING, EVICTION, PRIORITY}
    others = kinds[kinds.count(INLINING) :]
    assert INLINING not in others
    assert sum(one != two for one, two in pairwise(others)) > 2
    assert words == {INLINING: "inlining", EVICTION: "eviction", PRIORITY: "priority"}


def test_each_decision_shows_what_its_own_environment_shows(many_calls: str) -> None:
    alone = {
        INLINING: InlineEnv(corpus=many_calls),
        EVICTION: RegAllocEvictEnv(corpus=many_calls),
        PRIORITY: RegAllocPriorityEnv(corpus=many_calls),
    }
    seen: set[int] = set()
    for observation, _ in decisions(JointEnv(corpus=many_calls)):
        kind = int(observation["task"])
        if kind in seen or kind == EVICTION:
            continue
        seen.add(kind)
        own = np.asarray(alone[kind].reset()[0])
        np.testing.assert_array_equal(observation["observations"][: len(own)], own)
        assert not observation["observations"][len(own) :].any()
    assert seen == {INLINING, PRIORITY}
    for one in alone.values():
        one.close()


# Actions


def test_priorities_are_those_of_the_table(env: JointEnv) -> None:
    start = RANGES[PRIORITY][0]
    checked = 0
    for observation, _ in decisions(env):
        if observation["task"] != PRIORITY:
            continue
        size, stage = (int(value) for value in observation["observations"][:2])
        by_size = [
            SCALE * float(np.float32(size_order(one, stage)))
            for one in (size, int(size / 4), int(size / 2), 2 * size, 4 * size)
        ]
        expected = [by_size[0], 0.0, *by_size[1:], SCALE]
        decision = running_compile(env).decision
        assert decision is not None
        for number, value in enumerate(expected):
            advice = env.task.encode(decision, start + number)
            assert advice is not None
            assert struct.unpack("<f", advice)[0] == value
        checked += 1
    assert checked > 100


# Rewards


@pytest.mark.parametrize(
    "arguments",
    [{"metric": "spill_cost"}, {"scope": "function"}, {"credit": True}, {"compile_options": {"preoptimize": True}}],
    ids=str,
)
def test_what_belongs_to_allocation_alone_is_refused(arguments: dict[str, Any]) -> None:
    (name,) = arguments.get("compile_options", arguments)
    with pytest.raises(MlgoError, match=name):
        JointEnv(**arguments)
