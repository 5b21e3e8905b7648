"""One environment of a vector environment, on its own."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode_maker import EpisodeMaker
from mlgo_gym.errors import ActionError, CorpusError, MlgoError
from mlgo_gym.lane import Lane, spread_seeds
from tests.traces import children

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0

MakeLane = Callable[..., Lane]


@pytest.fixture
def make_lane(varied: str) -> Iterator[MakeLane]:
    """Return a function that makes a lane."""
    lanes: list[Lane] = []

    def make(prefetch: int = 0, **options: Any) -> Lane:
        lane = Lane(maker(varied, **options), 7, prefetch)
        lane.seed(len(lanes))
        lanes.append(lane)
        return lane

    yield make
    for lane in lanes:
        lane.close()
        lane.close()


def maker(corpus: str, **options: Any) -> EpisodeMaker:
    return InlineEnv(corpus=corpus, **options).maker


def wait(lane: Lane) -> None:
    while not lane.poll():
        assert lane.session is not None
        assert select.select(lane.session.descriptors(), [], [], LONG)[0]


def play(lane: Lane, action: Any = 1) -> int:
    """Play an episode to its end; return the number of decisions."""
    decisions = 0
    while not lane.over:
        lane.act(lane.encode(action))
        wait(lane)
        decisions += 1
    return decisions


def begin(lane: Lane, name: str | None = None) -> None:
    lane.begin(None if name is None else lane._maker.corpus.module(name))
    wait(lane)


def test_a_lane_goes_from_decision_to_decision_to_the_end(make_lane: MakeLane) -> None:
    lane = make_lane()
    begin(lane, "calls")
    assert not lane.over
    assert lane.decision is not None
    assert play(lane) == 9
    assert lane.decision is None
    assert not lane.truncated
    assert lane.info["decisions"] == 9
    assert lane.info["module"] == "calls"


def test_nothing_is_ready_while_clang_computes(make_lane: MakeLane) -> None:
    lane = make_lane()
    begin(lane, "calls")
    lane.act(lane.encode(1))
    assert not lane.ready
    wait(lane)
    assert lane.ready
    assert lane.decision is not None
    assert lane.decision.number == 1


def test_an_action_needs_a_decision(make_lane: MakeLane) -> None:
    lane = make_lane()
    with pytest.raises(ActionError, match="environment 7 has no decision that waits"):
        lane.encode(1)
    begin(lane)
    play(lane)
    with pytest.raises(ActionError, match="environment 7 has no decision that waits"):
        lane.encode(1)


def test_an_illegal_action_becomes_clangs_own(make_lane: MakeLane) -> None:
    lane = make_lane()
    begin(lane, "calls")
    assert lane.encode(9) == (1, lane.encode(1).advice, True)
    assert not lane.encode(1).illegal


def test_a_strict_lane_refuses_an_illegal_action_and_goes_on_waiting(make_lane: MakeLane) -> None:
    lane = make_lane(strict=True)
    begin(lane, "calls")
    with pytest.raises(ActionError, match="action 9 is not legal at the decision of environment 7"):
        lane.encode(9)
    assert play(lane) == 9


def test_the_last_action_is_known_until_the_next_episode(make_lane: MakeLane) -> None:
    lane = make_lane()
    begin(lane, "calls")
    assert lane.last_action is None
    lane.act(lane.encode(0))
    assert lane.last_action == 0
    wait(lane)
    begin(lane, "calls")
    assert lane.last_action is None


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_as_many_episodes_as_wanted_run_early(make_lane: MakeLane, prefetch: int) -> None:
    before = len(children())
    lane = make_lane(prefetch)
    for _ in range(3):
        begin(lane)
        assert len(children()) - before == 1 + prefetch
        play(lane)


def test_episodes_that_began_early_are_the_ones_that_come_without(make_lane: MakeLane) -> None:
    def modules(lane: Lane) -> list[str]:
        lane.seed(5)
        found = []
        for _ in range(12):
            begin(lane)
            assert lane.episode is not None
            found.append(lane.episode.compilation.module.name)
        return found

    plain = modules(make_lane(0))
    assert len(set(plain)) > 1
    assert modules(make_lane(3)) == plain


def test_another_seed_drops_the_episodes_that_began_early(make_lane: MakeLane) -> None:
    others = children()
    lane = make_lane(2)
    begin(lane)
    early = children() - others
    lane.seed(99)
    begin(lane)
    assert not early & children()


def test_a_module_without_decisions_is_an_error_of_the_lane(make_lane: MakeLane) -> None:
    lane = make_lane()
    begin(lane, "leaf")
    assert lane.over
    assert isinstance(lane.error, CorpusError)
    begin(lane, "calls")
    assert lane.error is None


def test_a_new_beginning_ends_the_compile_before(make_lane: MakeLane) -> None:
    before = children()
    lane = make_lane()
    begin(lane)
    lane.begin()
    assert len(children() - before) == 1
    wait(lane)
    assert lane.decision is not None


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(None, [None] * 3), (4, [4, 5, 6]), (np.int64(4), [4, 5, 6]), ([7, None, np.int32(1)], [7, None, 1])],
    ids=str,
)
def test_seeds_are_spread_over_lanes(seed: Any, expected: list[int | None]) -> None:
    spread = spread_seeds(seed, 3)
    assert spread == expected
    assert {type(each) for each in spread} <= {int, type(None)}


def test_a_list_of_another_length_is_no_list_of_seeds() -> None:
    with pytest.raises(MlgoError, match="3 seeds were expected, one per environment; found 4"):
        spread_seeds([1, 2, 3, 4], 3)
