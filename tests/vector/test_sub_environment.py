"""One environment of a vector environment, alone."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.errors import ActionError, MlgoError, NoDecisionError
from mlgo_gym.vector.in_process import spread_seeds
from mlgo_gym.vector.sub_environment import SubEnvironment
from tests.traces import children

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0

MakeSubEnv = Callable[..., SubEnvironment]


@pytest.fixture
def make_sub_env(varied: str) -> Iterator[MakeSubEnv]:
    """Return a function that makes a sub-environment."""
    sub_envs: list[SubEnvironment] = []

    def make(prefetch: int = 0, mode: AutoresetMode = AutoresetMode.DISABLED, **options: Any) -> SubEnvironment:
        sub_env = SubEnvironment(maker(varied, **options), 7, prefetch, mode)
        sub_env.seed(len(sub_envs))
        sub_envs.append(sub_env)
        return sub_env

    yield make
    for sub_env in sub_envs:
        sub_env.close()
        sub_env.close()


def maker(corpus: str, **options: Any) -> EpisodeMaker:
    return InlineEnv(corpus=corpus, **options).maker


def wait(sub_env: SubEnvironment) -> None:
    while not sub_env.poll():
        assert sub_env.session is not None
        assert select.select(sub_env.session.descriptors(), [], [], LONG)[0]


def play(sub_env: SubEnvironment, action: Any = 1) -> int:
    """Step to the end of an episode; return the number of decisions."""
    decisions = 0
    while not sub_env.over:
        sub_env.act(sub_env.encode(action))
        wait(sub_env)
        decisions += 1
    return decisions


def begin(sub_env: SubEnvironment, name: str | None = None) -> None:
    sub_env.begin(None if name is None else sub_env._maker.setup.corpus.module(name))
    wait(sub_env)


def test_it_steps_from_decision_to_decision_to_the_end(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    begin(sub_env, "calls")
    assert not sub_env.over
    assert sub_env.decision is not None
    assert play(sub_env) == 9
    assert sub_env.decision is None
    assert sub_env.outcome is not None
    assert not sub_env.outcome.truncated
    assert sub_env.outcome.info["decisions"] == 9
    assert sub_env.outcome.info["module"] == "calls"


def test_nothing_is_ready_while_clang_computes(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    begin(sub_env, "calls")
    sub_env.act(sub_env.encode(1))
    assert not sub_env.ready
    wait(sub_env)
    assert sub_env.ready
    assert sub_env.decision is not None
    assert sub_env.decision.site.index == 1


def test_an_action_needs_a_decision(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    with pytest.raises(ActionError, match=r"environment 7: expected a pending decision"):
        sub_env.encode(1)
    begin(sub_env)
    play(sub_env)
    with pytest.raises(ActionError, match=r"environment 7: expected a pending decision"):
        sub_env.encode(1)


def test_with_next_step_any_action_begins_the_next_episode(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env(mode=AutoresetMode.NEXT_STEP)
    begin(sub_env, "calls")
    play(sub_env)
    answer = sub_env.encode("no action at all")
    assert answer is None
    sub_env.act(answer)
    wait(sub_env)
    assert sub_env.outcome is None
    assert sub_env.decision is not None


def test_with_same_step_the_next_episode_begins_before_the_end_is_returned(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env(mode=AutoresetMode.SAME_STEP, max_decisions=1)
    begin(sub_env, "calls")
    sub_env.act(sub_env.encode(1))
    wait(sub_env)
    assert sub_env.decision is not None
    result = sub_env.step_result()
    assert result.terminated
    assert result.info["final_info"]["decisions"] == 1
    assert result.info["decision_index"] == 0
    assert not sub_env.step_result().terminated


def test_without_strict_the_default_action_replaces_an_illegal_one(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env(strict=False)
    begin(sub_env, "calls")
    legal = sub_env.encode(1)
    assert legal is not None
    assert not legal.illegal
    assert sub_env.encode(9) == (1, legal.advice, True)


def test_an_illegal_action_raises_and_the_decision_stays_pending(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    begin(sub_env, "calls")
    with pytest.raises(ActionError, match=r"environment 7: expected a legal action among .*, got 9"):
        sub_env.encode(9)
    assert play(sub_env) == 9


def test_the_actions_are_kept_until_the_next_episode(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    begin(sub_env, "calls")
    assert sub_env.stepper is not None
    assert sub_env.stepper.actions == []
    sub_env.act(sub_env.encode(0))
    assert sub_env.stepper.actions == [0]
    wait(sub_env)
    begin(sub_env, "calls")
    assert sub_env.stepper.actions == []


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_prefetch_is_the_number_of_early_episodes(make_sub_env: MakeSubEnv, prefetch: int) -> None:
    before = children()
    sub_env = make_sub_env(prefetch)
    for _ in range(3):
        begin(sub_env)
        assert len(children() - before) == 1 + prefetch
        play(sub_env)


def test_prefetched_episodes_equal_those_without_prefetching(make_sub_env: MakeSubEnv) -> None:
    def modules(sub_env: SubEnvironment) -> list[str]:
        sub_env.seed(5)
        found = []
        for _ in range(12):
            begin(sub_env)
            assert sub_env.stepper is not None
            found.append(sub_env.stepper.episode.compilation.module.name)
        return found

    plain = modules(make_sub_env(0))
    assert len(set(plain)) > 1
    assert modules(make_sub_env(3)) == plain


def test_another_seed_drops_the_prefetched_episodes(make_sub_env: MakeSubEnv) -> None:
    others = children()
    sub_env = make_sub_env(2)
    begin(sub_env)
    early = children() - others
    sub_env.seed(99)
    begin(sub_env)
    assert not early & children()


def test_a_module_without_decisions_is_an_error(make_sub_env: MakeSubEnv) -> None:
    sub_env = make_sub_env()
    begin(sub_env, "leaf")
    assert sub_env.over
    assert isinstance(sub_env.take_error(), NoDecisionError)
    begin(sub_env, "calls")
    assert sub_env.take_error() is None


def test_a_new_episode_ends_the_compile_of_the_last(make_sub_env: MakeSubEnv) -> None:
    before = children()
    sub_env = make_sub_env()
    begin(sub_env)
    sub_env.begin()
    assert len(children() - before) == 1
    wait(sub_env)
    assert sub_env.decision is not None


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(None, [None] * 3), (4, [4, 5, 6]), (np.int64(4), [4, 5, 6]), ([7, None, np.int32(1)], [7, None, 1])],
    ids=str,
)
def test_seeds_are_spread_over_sub_environments(seed: Any, expected: list[int | None]) -> None:
    spread = spread_seeds(seed, 3)
    assert spread == expected
    assert {type(each) for each in spread} <= {int, type(None)}


def test_a_list_of_seeds_of_another_length_is_an_error() -> None:
    with pytest.raises(MlgoError, match="expected 3 seeds, one per environment, got 4"):
        spread_seeds([1, 2, 3, 4], 3)
