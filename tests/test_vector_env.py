"""The vector environment's own interface: arguments, resets, and environments that answer when they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import ActionError, CorpusError, MlgoError
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.traces import traces
from tests.vector.stepping import EVICT, INLINE, clang_of, end_clang, make

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def envs(varied: str) -> Iterator[CompilerVectorEnv]:
    made = make(INLINE, varied)
    yield made
    made.close()


@pytest.fixture
def few(varied: str) -> Iterator[CompilerVectorEnv]:
    """Four environments of which two are returned at a time."""
    made = make(INLINE, varied, 4, batch_size=2, max_decisions=3)
    yield made
    made.close()


# Making one


@pytest.mark.parametrize("name", compiler_environments())
def test_make_vec_gives_it_for_every_environment(name: str, varied: str) -> None:
    envs = gym.make_vec(name, num_envs=2, corpus=varied)
    single = gym.make(name, corpus=varied)
    assert isinstance(envs.unwrapped, CompilerVectorEnv)
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    assert envs.get_attr("feature_names") == (single.get_wrapper_attr("feature_names"),) * 2  # type: ignore[attr-defined]
    observations, _ = envs.reset(seed=1)
    assert envs.observation_space.contains(observations)
    assert envs.action_space.contains(envs.action_space.sample())
    envs.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_envs": 0},
        {"batch_size": 0},
        {"batch_size": 3, "num_envs": 2},
        {"prefetch": -1},
        {"autoreset_mode": "Never"},
        {"reward": "speed"},
    ],
    ids=str,
)
def test_an_impossible_argument_is_refused_by_name(arguments: dict[str, Any]) -> None:
    with pytest.raises(MlgoError, match=next(iter(arguments))):
        InlineVectorEnv(**arguments)


@pytest.mark.parametrize("mode", [*AutoresetMode, *(mode.value for mode in AutoresetMode)], ids=str)
def test_the_autoreset_mode_is_declared(mode: AutoresetMode | str) -> None:
    before = dict(InlineEnv.metadata)  # a library may have written a mode of its own there
    envs = InlineVectorEnv(autoreset_mode=mode)
    assert envs.autoreset_mode is AutoresetMode(mode)
    assert envs.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert InlineEnv.metadata == before
    envs.close()


def test_nothing_is_opened_or_started_before_the_first_reset() -> None:
    envs = InlineVectorEnv(num_envs=2, corpus="/no/such/folder")
    with pytest.raises(CorpusError, match="/no/such/folder"):
        envs.reset(options={"module": "calls"})
    envs.close()


def InlineVectorEnv(**options: Any) -> CompilerVectorEnv:  # noqa: N802 - it stands for the class
    return as_vector(gym.make_vec(INLINE, **options))


def test_another_vector_environment_is_not_taken_for_ours(varied: str) -> None:
    envs = gym.make_vec(INLINE, num_envs=1, vectorization_mode="sync", corpus=varied)
    with pytest.raises(MlgoError, match="got SyncVectorEnv"):
        as_vector(envs)
    envs.close()


def test_gymnasiums_wrappers_take_it(varied: str) -> None:
    envs = make(INLINE, varied, autoreset_mode="SameStep", max_decisions=2)
    wrapped = DictInfoToList(RecordEpisodeStatistics(envs))
    wrapped.reset(seed=1)
    for _ in range(2):
        *_, infos = wrapped.step(np.ones(3, int))
    assert [info["episode"]["l"] for info in infos] == [2, 2, 2]
    wrapped.close()


# Resets


def test_modules_are_named_for_all_or_one_by_one(envs: CompilerVectorEnv) -> None:
    assert envs.reset(options={"module": "mixed"})[1]["module"].tolist() == ["mixed"] * 3
    _, info = envs.reset(seed=1, options={"module": ["calls", None, "again"]})
    assert info["module"].tolist() == ["calls", envs.reset(seed=1)[1]["module"][1], "again"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"module": "cals"}, "did you mean .*calls"),
        ({"module": ["calls"]}, "with 3 values, one per environment, got 1"),
        ({"modul": "calls"}, "got .*'modul'"),
        ({"module": "mixed", "function": "crowd"}, 'scope="function"'),
        ({"function": "crowd"}, 'expected the option "module"'),
        ({"reset_mask": [True, False]}, r"booleans of shape \(3,\)"),
        ({"reset_mask": [0, 1, 0]}, "booleans"),
        ({"reset_mask": [False] * 3}, "at least one"),
    ],
    ids=str,
)
def test_impossible_options_are_refused(envs: CompilerVectorEnv, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError, match=message):
        envs.reset(options=options)


def test_too_few_seeds_are_refused(envs: CompilerVectorEnv) -> None:
    with pytest.raises(MlgoError, match="expected 3 seeds, one per environment, got 2"):
        envs.reset(seed=[1, 2])


def test_a_masked_reset_begins_episodes_in_those_environments_alone(envs: CompilerVectorEnv) -> None:
    envs.reset(options={"module": "calls"})
    before = envs.step([0, 0, 0])[0]
    pids = [clang_of(envs, number) for number in range(3)]
    after, info = envs.reset(options={"reset_mask": np.array([False, True, False]), "module": "mixed"})
    assert info["_module"].tolist() == [False, True, False]
    assert [clang_of(envs, number) == pid for number, pid in enumerate(pids)] == [True, False, True]
    assert [np.array_equal(*rows) for rows in zip(before, after, strict=True)] == [True, False, True]
    *_, info = envs.step([0, 0, 0])
    assert info["decision_index"].tolist() == [2, 1, 2]


def test_a_module_without_decisions_is_an_error_that_leaves_the_others_alone(envs: CompilerVectorEnv) -> None:
    with pytest.raises(CorpusError, match=r"expected a decision on inlining in module 'leaf' of corpus .*, got none"):
        envs.reset(options={"module": ["calls", "leaf", "calls"]})
    envs.async_reset(env_ids=[1], options={"module": "mixed"})
    *_, info = envs.recv()
    assert info["module"].tolist() == ["calls", "mixed", "calls"]


def test_a_corpus_without_any_decision_is_an_error(leaf: Any) -> None:
    envs = make(INLINE, str(leaf), 2)
    for _ in range(2):
        with pytest.raises(CorpusError, match="got none among the 1 modules"):
            envs.reset()
    envs.close()


# Steps


def test_batches_are_never_written_again(envs: CompilerVectorEnv) -> None:
    observations, info = envs.reset(seed=1)
    kept = observations.copy(), info["decision_index"].copy()
    envs.step([1, 1, 1])
    assert np.array_equal(observations, kept[0])
    assert np.array_equal(info["decision_index"], kept[1])


def test_a_step_needs_a_reset(envs: CompilerVectorEnv) -> None:
    with pytest.raises(ActionError, match="environment 0: expected a pending decision, got none; reset it"):
        envs.step([0, 0, 0])


def test_without_autoreset_an_ended_episode_takes_no_action(varied: str) -> None:
    envs = make(INLINE, varied, 2, autoreset_mode="Disabled", max_decisions=1)
    envs.reset(seed=1)
    assert envs.step([0, 0])[2].all()
    with pytest.raises(ActionError, match=r"environment 0: .*reset it"):
        envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([True, True])})
    assert envs.step([0, 0])[2].all()
    envs.close()


@pytest.mark.parametrize("actions", [[0], [0] * 4, []], ids=str)
def test_each_environment_needs_an_action(envs: CompilerVectorEnv, actions: list[int]) -> None:
    envs.reset()
    with pytest.raises(MlgoError, match=f"expected 3 actions, one per environment, got {len(actions)}"):
        envs.step(actions)
    assert envs.step([0, 0, 0])[4]["decision_index"].tolist() == [1, 1, 1]


def test_a_strict_environment_raises_before_anything_is_sent(varied: str) -> None:
    envs = make(EVICT, varied, 2, strict=True)
    _, info = envs.reset(seed=1)
    illegal = int(np.flatnonzero(info["action_mask"][1] == 0)[0])
    with pytest.raises(ActionError, match=f"environment 1: expected a legal action among .*, got {illegal}"):
        envs.step([info["default_action"][0], illegal])
    *_, info = envs.step(info["default_action"])
    assert info["decision_index"].tolist() == [1, 1]
    envs.close()


def test_masks_say_what_is_legal(varied: str) -> None:
    envs = make(EVICT, varied, 2, max_decisions=1)
    _, info = envs.reset(seed=1)
    masks = envs.action_masks()
    assert masks is not None
    assert masks.dtype == np.int8
    assert np.array_equal(masks, info["action_mask"])
    assert np.array_equal(np.stack(envs.call("action_masks")), masks)
    envs.step(info["default_action"])
    afterwards = envs.action_masks()
    assert afterwards is not None
    assert afterwards.all()
    envs.close()


def test_where_all_is_legal_masks_are_ones(envs: CompilerVectorEnv) -> None:
    envs.reset()
    masks = envs.action_masks()
    assert masks is not None
    assert masks.tolist() == [[1, 1]] * 3
    assert np.array_equal(envs.call("action_masks"), masks)


def test_an_end_has_the_keys_of_a_decision(varied: str) -> None:
    envs = make(INLINE, varied, 1, max_decisions=2)
    _, infos = envs.reset(seed=1)
    ends = 0
    for _ in range(8):
        _, _, ended, _, infos = envs.step(infos["default_action"])
        ends += ended[0]
        assert infos["_default_action"].tolist() == (~ended).tolist()
    assert ends > 1
    envs.close()


def test_numeric_infos_have_one_form(varied: str) -> None:
    envs = make(EVICT, varied, 2, max_decisions=2, info="numeric")
    _, first = envs.reset(seed=1)
    forms = {key: (value.dtype, value.shape) for key, value in first.items()}
    for _ in range(6):
        *_, infos = envs.step(first["default_action"])
        assert {key: (value.dtype, value.shape) for key, value in infos.items()} == forms
    envs.close()


def test_modules_come_in_turn_once_each_among_all_environments(varied: str) -> None:
    envs = make(INLINE, varied, 2, max_decisions=1, module_order="cycle", autoreset_mode="SameStep")
    _, infos = envs.reset(seed=1)
    seen = [*infos["module"]]
    for _ in range(3):
        *_, infos = envs.step(infos["default_action"])
        seen += [*infos["module"]]
    assert set(seen) == {"again", "calls", "many_calls", "mixed"}
    envs.close()


def test_episodes_of_one_budget_end_together(varied: str) -> None:
    with InlineEnv(corpus=varied) as single:
        enough = single.with_decisions(3)
    envs = as_vector(gym.make_vec(INLINE, num_envs=2, corpus=enough, max_decisions=3))
    envs.reset(seed=0)
    ends = [envs.step([1, 0])[2].tolist() for _ in range(8)]
    assert ends == [[over, over] for over in (False, False, True, False, False, False, True, False)]
    envs.close()


def test_each_environment_draws_its_own_picture(varied: str) -> None:
    envs = make(INLINE, varied, 2, render_mode="rgb_array")
    envs.reset(seed=1, options={"module": ["calls", "mixed"]})
    one, other = envs.render()
    assert one.shape == other.shape == (288, 480, 3)
    assert not np.array_equal(one, other)
    envs.close()


def test_attributes_and_methods_of_the_single_environment_can_be_had(envs: CompilerVectorEnv) -> None:
    assert envs.get_attr("metric") == ("text",) * 3
    assert envs.call("metric") == ("text",) * 3
    assert envs.call("decisions", envs.corpus.module("calls")) == ({"": 9},) * 3
    assert envs.call("render") == (None,) * 3
    with pytest.raises(AttributeError):
        envs.get_attr("no_such_attribute")


# Those that are ready first


def test_the_first_that_are_ready_are_returned_with_their_numbers(few: CompilerVectorEnv) -> None:
    few.async_reset(seed=1)
    seen = []
    for _ in range(2):
        observations, rewards, terminations, truncations, info = few.recv()
        assert [len(part) for part in (observations, rewards, terminations, truncations)] == [2] * 4
        assert info["env_id"].dtype == np.int64
        seen += info["env_id"].tolist()
    assert sorted(seen) == [0, 1, 2, 3]


def test_a_slow_environment_keeps_nobody_waiting(few: CompilerVectorEnv, varied: str) -> None:
    few.async_reset(seed=1)
    first = few.recv()[4]["env_id"].tolist()
    others = few.recv()[4]["env_id"].tolist()
    for _ in range(20):
        few.send([0, 0], others)
        assert sorted(few.recv()[4]["env_id"]) == sorted(others)
    few.send([0, 0], first)
    *_, info = few.recv()
    assert info["decision_index"].tolist() == [1, 1]
    assert sorted(info["env_id"]) == sorted(first)


def test_actions_are_for_those_that_came_last_unless_they_name_others(few: CompilerVectorEnv) -> None:
    few.reset(options={"module": "calls"})
    few.send([0] * 4)
    first = few.recv()[4]["env_id"].tolist()
    second = few.recv()[4]["env_id"].tolist()
    few.send([0, 0])
    assert sorted(few.recv()[4]["env_id"]) == sorted(second)
    few.send([0, 0], env_ids=first)
    *_, info = few.recv()
    assert sorted(info["env_id"]) == sorted(first)
    assert info["decision_index"].tolist() == [2, 2]


def test_nothing_comes_of_nothing(few: CompilerVectorEnv) -> None:
    with pytest.raises(MlgoError, match=r"expected 2 running environments for recv\(\), got 0"):
        few.recv()
    few.async_reset(env_ids=[3])
    with pytest.raises(MlgoError, match="expected 2 running environments"):
        few.recv()
    few.async_reset(env_ids=[1])
    assert sorted(few.recv()[4]["env_id"]) == [1, 3]
    with pytest.raises(MlgoError, match="expected 2 running environments"):
        few.recv()


def test_nothing_can_be_sent_twice(few: CompilerVectorEnv) -> None:
    few.reset(seed=1)
    few.send([0, 0], [0, 1])
    with pytest.raises(MlgoError, match="expected a ready environment, got 1"):
        few.send([0, 0], [2, 1])
    few.recv()
    few.send([0, 0], [1, 2])
    assert sorted(few.recv()[4]["env_id"]) == [1, 2]


@pytest.mark.parametrize("numbers", [[0, 4], [-1, 0], [1, 1]], ids=str)
def test_environments_have_different_numbers_from_0_on(few: CompilerVectorEnv, numbers: list[int]) -> None:
    few.reset(seed=1)
    with pytest.raises(MlgoError, match="expected env_ids as distinct indices from 0 to 3"):
        few.send([0, 0], numbers)
    with pytest.raises(MlgoError, match="expected env_ids as distinct indices from 0 to 3"):
        few.async_reset(env_ids=numbers)
    few.send([0, 0], [0, 1])
    assert few.recv()[4]["decision_index"].tolist() == [1, 1]


def test_a_reset_takes_back_what_is_under_way(few: CompilerVectorEnv) -> None:
    few.reset(seed=1)
    few.send([0, 0], [0, 1])
    _, info = few.reset(seed=1)
    assert info["decision_index"].tolist() == [0] * 4
    with pytest.raises(MlgoError, match="expected 2 running environments"):
        few.recv()


# Lifetime


def test_closing_ends_every_compile_and_can_be_repeated(envs: CompilerVectorEnv) -> None:
    before = traces().children
    envs.reset()
    envs.step([0, 0, 0])
    assert len(traces().children - before) == 6
    envs.close()
    envs.close()
    assert traces().children <= before
    for use in (envs.reset, envs.async_reset, lambda: envs.step([0] * 3)):
        with pytest.raises(MlgoError, match="expected an open vector environment"):
            use()


def test_an_environment_that_is_forgotten_closes_itself(varied: str) -> None:
    before = traces()
    envs = make(INLINE, varied)
    envs.reset()
    del envs
    assert traces() <= before


@pytest.mark.slow
def test_200_episodes_of_every_kind_leave_nothing(varied: str) -> None:
    envs = make(INLINE, varied, 4, autoreset_mode="SameStep", batch_size=3, max_decisions=2, prefetch=2)
    envs.reset(seed=0)
    envs.close()
    before = traces()
    envs = make(INLINE, varied, 4, autoreset_mode="SameStep", batch_size=3, max_decisions=2, prefetch=2)
    envs.async_reset(seed=0)
    ended, steps = 0, 0
    while ended < 200:
        _, _, terminations, truncations, info = envs.recv()
        ended += int((terminations | truncations).sum())
        steps += 1
        if steps % 20 == 0:
            end_clang(envs, info["env_id"][0])
        if steps % 30 == 0:
            envs.async_reset(env_ids=info["env_id"])
        else:
            envs.send([1, 0, 1])
    envs.close()
    assert traces() <= before
