"""One decision made otherwise, all others as they were: by its number, and by its place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import ActionError, MlgoError
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


def play(env: InlineEnv, answers: dict[tuple[str, int, int], int], **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """Play an episode by place, and return its places and last info."""
    _, info = env.reset(seed=0, options=options)
    places, ended = [], False
    while not ended:
        places.append((info["context"], info["visit"], info["position"]))
        _, _, ended, _, info = env.step(answers.get(places[-1], info["default_action"]))
    return places, info


def test_it_is_what_the_episode_costs_with_one_decision_made_otherwise(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), contexts=True)
    places, _ = play(env, {})
    generator = random.Random(3)
    answers = {place: int(generator.random() < 0.5) for place in places}
    places, info = play(env, answers)
    actions = env.actions
    number = len(places) // 2
    by_number, by_place = env.counterfactual(number, places[number])
    assert by_number == by_place
    assert by_number.site == places[number]
    assert by_number.action == actions[number] == 1 - by_number.other
    assert by_number.cost == info["text_size"]
    assert env.actions == actions
    _, other = play(env, {**answers, places[number]: by_number.other})
    assert by_number.other_cost == other["text_size"]
    assert by_number.saved == other["text_size"] - info["text_size"]
    env.close()


def test_an_episode_need_not_be_over(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), contexts=True)
    _, info = env.reset(seed=0)
    _, _, _, _, info = env.step(1 - info["default_action"])
    first, waiting = env.counterfactual(0, 1)
    assert first.other_cost == play_default(bitcode)
    assert waiting.action == info["default_action"]
    # It still waits, with the same decision.
    assert env.step(waiting.action)[4]["decision"] == 2
    env.close()


def play_default(bitcode: Path) -> int:
    env = InlineEnv(corpus=str(bitcode), contexts=True)
    size = int(play(env, {})[1]["text_size"])
    env.close()
    return size


def test_in_an_episode_of_one_function_the_others_are_clangs(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), scope="function", reward="bytes")
    _, info = play(env, {}, module="families", function="clipped")
    (found,) = env.counterfactual(("clipped", 0, 0))
    _, other = play(env, {("clipped", 0, 0): found.other}, module="families", function="clipped")
    assert found.saved == other["text_size"] - info["text_size"] == -other["saved"]
    env.close()


def test_a_decision_that_never_was_is_an_error(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode))
    with pytest.raises(ActionError, match="reset"):
        env.counterfactual(0)
    env.reset(seed=0)
    with pytest.raises(MlgoError, match="nowhere"):
        env.counterfactual(("nowhere", 0, 0))
    env.close()


def test_registers_have_none(make_bitcode: MakeBitcode) -> None:
    env = RegAllocEvictEnv(corpus=str(make_bitcode("pressure.c")))
    env.reset(seed=0)
    with pytest.raises(MlgoError, match="fork"):
        env.counterfactual(0)
    env.close()
