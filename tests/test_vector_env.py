"""The vector environment: resets, calls, environments that answer when they are ready, copies, and its end."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from mlgo_gym import ActionError, CompilerVectorEnv, CorpusError, MlgoError
from tests.fakes.compiles import running_compile
from tests.fakes.stepping import EVICT, INLINE, clang_of, end_clang, make, make_sync
from tests.traces import children, traces

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


# Resets


def test_modules_are_named_for_all_or_one_by_one(envs: CompilerVectorEnv) -> None:
    assert envs.reset(options={"module": "mixed"})[1]["module"].tolist() == ["mixed"] * 3
    _, info = envs.reset(seed=1, options={"module": ["calls", None, "again"]})
    assert info["module"].tolist() == ["calls", envs.reset(seed=1)[1]["module"][1], "again"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"module": ["calls"]}}, "with 3 values, one per environment, got 1"),
        ({"options": {"module": "mixed", "function": "crowd"}}, 'scope="function"'),
        ({"options": {"reset_mask": [True, False]}}, r"booleans of shape \(3,\)"),
        ({"options": {"reset_mask": [0, 1, 0]}}, "booleans"),
        ({"options": {"reset_mask": [False] * 3}}, "at least one"),
    ],
    ids=str,
)
def test_impossible_resets_are_refused(envs: CompilerVectorEnv, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError, match=message):
        envs.reset(**arguments)


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


@pytest.mark.parametrize("prefetch", [0, 3])
def test_prefetch_is_the_number_of_early_episodes(prefetch: int, varied: str) -> None:
    before = children()
    envs = make(INLINE, varied, 2, prefetch=prefetch, max_decisions=2)
    envs.reset(seed=1)
    assert len(children() - before) == 2 * (1 + prefetch)
    early = children() - before
    for _ in range(4):
        envs.step([1, 1])
        assert len(children() - before) <= 2 * (1 + prefetch)
    envs.reset(seed=5)
    assert not early & children()  # another seed drops them
    assert len(children() - before) == 2 * (1 + prefetch)
    envs.close()


# Steps


def test_batches_are_never_written_again(envs: CompilerVectorEnv) -> None:
    observations, info = envs.reset(seed=1)
    kept = observations.copy(), info["decision_index"].copy()
    envs.step([1, 1, 1])
    assert np.array_equal(observations, kept[0])
    assert np.array_equal(info["decision_index"], kept[1])


def test_a_step_needs_a_pending_decision_and_an_action_for_each(envs: CompilerVectorEnv) -> None:
    with pytest.raises(ActionError, match="environment 0: expected a pending decision, got none; reset it"):
        envs.step([0, 0, 0])
    envs.reset()
    for actions in ([0], [0] * 4, []):
        with pytest.raises(MlgoError, match=f"expected 3 actions, one per environment, got {len(actions)}"):
            envs.step(actions)
    with pytest.raises(ActionError, match="expected an action"):
        envs.step([0, 0.5, 0])
    assert envs.step([0, 0, 0])[4]["decision_index"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", [INLINE, EVICT, "mlgo/RegAllocPriority-v0"])
def test_of_actions_with_nan_none_is_sent(name: str, varied: str) -> None:
    for strict in (True, False):
        envs = make(name, varied, 2, strict=strict)
        _, info = envs.reset(options={"module": "mixed"})
        actions = info["default_action"].astype(np.float64)
        actions[1] = np.nan
        for send in (envs.step, envs.send):
            with pytest.raises(ActionError, match=r"^environment 1: expected a.*(nan|NaN)"):
                send(actions)
        assert [running_compile(envs, number).advice for number in range(2)] == [(), ()]
        assert envs.step(info["default_action"])[4]["decision_index"].tolist() == [1, 1]
        envs.close()


def test_masks_say_what_is_legal(varied: str, envs: CompilerVectorEnv) -> None:
    masked = make(EVICT, varied, 2, max_decisions=1)
    _, info = masked.reset(seed=1)
    masks = masked.action_masks()
    assert masks is not None
    assert masks.dtype == np.int8
    assert np.array_equal(masks, info["action_mask"])
    masked.step(info["default_action"])
    masks = masked.action_masks()
    assert masks is not None
    assert masks.all()
    masked.close()
    envs.reset()
    assert np.array_equal(np.asarray(envs.action_masks()), np.ones((3, 2)))
    continuous = make("mlgo/RegAllocPriority-v0", varied, 1)
    assert continuous.action_masks() is None
    continuous.close()


def test_an_end_has_the_keys_of_a_decision_and_numeric_infos_one_form(varied: str) -> None:
    ends = 0
    for name, info in ((INLINE, "full"), (EVICT, "numeric")):
        envs = make(name, varied, 1, max_decisions=2, info=info)
        _, infos = envs.reset(seed=1)
        forms = {key: (value.dtype, value.shape) for key, value in infos.items()}
        for _ in range(6):
            _, _, ended, _, infos = envs.step(infos["default_action"])
            ends += ended[0]
            if info == "full":
                assert infos["_default_action"].tolist() == (~ended).tolist()
            else:
                assert {key: (value.dtype, value.shape) for key, value in infos.items()} == forms
        envs.close()
    assert ends > 2


def test_a_curriculum_may_change_while_environments_run_and_for_some_of_them(varied: str) -> None:
    envs = make(INLINE, varied, 2, max_decisions=1, autoreset_mode="SameStep", module_order="cycle")
    envs.async_reset(seed=1)
    envs.set_module_order({"mixed": 1.0, "*": 0.0})
    assert envs.recv()[4]["module"].tolist() == ["again", "calls"]
    assert envs.step([1, 1])[4]["module"].tolist() == ["mixed", "mixed"]
    envs.call_some([1], "set_module_order", {"calls": 1.0, "*": 0.0})
    assert envs.step([1, 1])[4]["module"].tolist() == ["mixed", "calls"]
    assert envs.reset(seed=1)[1]["module"].tolist() == ["mixed", "calls"]
    envs.close()
    with pytest.raises(MlgoError, match="got a closed one"):
        envs.set_module_order("cycle")


# Calls and attributes of each environment


def test_the_states_and_forks_of_environments_are_their_own(envs: CompilerVectorEnv) -> None:
    envs.reset(options={"module": ["calls", "mixed", "again"]})
    envs.step([1, 0, 0])
    assert [state.module for state in envs.call("state")] == ["calls", "mixed", "again"]
    assert envs.get_attr("actions") == ((1,), (0,), (0,))
    fork = envs.call_some([2], "fork")[0]
    assert fork.actions == (0,)
    fork.step(1)
    assert fork.actions == (0, 1)
    assert envs.get_attr("actions")[2] == (0,)
    fork.close()
    assert envs.step([1, 1, 1])[4]["decision_index"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["step", "reset", "close", "_end_episode"])
def test_methods_that_would_advance_one_environment_are_refused(name: str, envs: CompilerVectorEnv) -> None:
    envs.reset()
    with pytest.raises(MlgoError, match=f"^expected a method that leaves .*, got '{name}'"):
        envs.call(name)
    assert envs.step([0, 0, 0])[4]["decision_index"].tolist() == [1, 1, 1]


def test_attributes_are_set_one_by_one_unless_all_share_them(envs: CompilerVectorEnv) -> None:
    envs.set_attr("label", ["a", "b", "c"])
    assert envs.get_attr("label") == ("a", "b", "c")
    envs.set_attr("label", "d")
    assert envs.get_attr("label") == ("d",) * 3
    with pytest.raises(MlgoError, match="expected 3 values of 'label', one per environment, got 2"):
        envs.set_attr("label", ["a", "b"])
    for name in ("metric", "setup", "render_mode", "_episode", "step"):
        with pytest.raises(MlgoError, match=f"cannot set '{name}' of an environment: all share it"):
            envs.set_attr(name, 1)


def test_a_set_generator_samples_the_next_modules(envs: CompilerVectorEnv, varied: str) -> None:
    theirs = make_sync(INLINE, varied)
    modules = []
    for each in (envs, theirs):
        each.reset(seed=1)
        each.set_attr("np_random", [np.random.default_rng(seed) for seed in (5, 6, 7)])
        assert each.np_random_seed == (-1, -1, -1)
        modules.append([each.reset()[1]["module"].tolist() for _ in range(3)])
    assert modules[0] == modules[1]
    with pytest.raises(MlgoError, match=r"expected np_random as a numpy.random.Generator, got 5"):
        envs.set_attr("np_random", 5)
    theirs.close()


# Those that are ready first


def test_the_first_that_are_ready_are_returned_with_their_numbers(few: CompilerVectorEnv) -> None:
    few.async_reset(seed=1)
    parts = [few.recv() for _ in range(2)]
    for *values, info in parts:
        assert [len(part) for part in values] == [2] * 4
        assert info["env_id"].dtype == np.int64
    first, second = (info["env_id"].tolist() for *_, info in parts)
    assert sorted(first + second) == [0, 1, 2, 3]
    for _ in range(20):  # the first two keep nobody waiting
        few.send([0, 0], second)
        assert sorted(few.recv()[4]["env_id"]) == sorted(second)
    few.send([0, 0], first)
    *_, info = few.recv()
    assert info["decision_index"].tolist() == [1, 1]
    assert sorted(info["env_id"]) == sorted(first)


def test_receiving_needs_enough_running_environments(few: CompilerVectorEnv) -> None:
    message = r"expected 2 running environments for recv\(\), got "
    with pytest.raises(MlgoError, match=f"{message}0"):
        few.recv()
    few.async_reset(env_ids=[3])
    with pytest.raises(MlgoError, match=f"{message}1"):
        few.recv()
    few.async_reset(env_ids=[1])
    assert sorted(few.recv()[4]["env_id"]) == [1, 3]
    with pytest.raises(MlgoError, match=f"{message}0"):
        few.recv()
    few.send([0, 0], [1, 3])
    few.reset(seed=1)  # takes back what is running
    with pytest.raises(MlgoError, match=f"{message}0"):
        few.recv()


def test_actions_go_to_ready_environments_with_distinct_numbers(few: CompilerVectorEnv) -> None:
    few.reset(options={"module": "calls"})
    for numbers in ([0, 4], [-1, 0], [1, 1]):
        with pytest.raises(MlgoError, match="expected env_ids as distinct indices from 0 to 3"):
            few.send([0, 0], numbers)
        with pytest.raises(MlgoError, match="expected env_ids as distinct indices from 0 to 3"):
            few.async_reset(env_ids=numbers)
    few.send([0, 0], [0, 1])
    with pytest.raises(MlgoError, match="expected a ready environment, got 1"):
        few.send([0, 0], [2, 1])
    assert few.recv()[4]["decision_index"].tolist() == [1, 1]
    few.send([0, 0], [1, 2])
    assert sorted(few.recv()[4]["env_id"]) == [1, 2]
    *_, info = few.step([0] * 4)
    assert (info["decision_index"].tolist(), "env_id" in info) == ([2, 0, 2, 1], False)


def test_a_mask_chooses_environments_and_booleans_are_no_indices(few: CompilerVectorEnv) -> None:
    few.reset(seed=1, options={"module": "calls"})
    mask = np.array([False, True, False, True])
    few.send([0, 1, 0, 0], mask=mask)
    *_, info = few.recv()
    assert sorted(info["env_id"]) == [1, 3]
    assert few.get_attr("actions") == ((), (1,), (), (0,))
    few.async_reset(mask=mask, options={"module": "mixed"})
    *_, info = few.recv()
    assert (sorted(info["env_id"]), info["module"].tolist()) == ([1, 3], ["mixed", "mixed"])
    pair = [True, False]  # as indices: environments 1 and 0
    for start in (lambda **chosen: few.send([0, 0, 0, 0], **chosen), few.async_reset):
        with pytest.raises(MlgoError, match=r"expected env_ids as indices, got booleans .*; pass mask="):
            start(env_ids=pair)
        with pytest.raises(MlgoError, match=r"expected env_ids as distinct indices from 0 to 3, got \[0\.5\]"):
            start(env_ids=np.array([0.5]))
        with pytest.raises(MlgoError, match=r"expected mask as booleans of shape \(4,\)"):
            start(mask=[1, 0, 1, 0])
        with pytest.raises(MlgoError, match="expected env_ids or mask, got both"):
            start(env_ids=[0], mask=mask)
    with pytest.raises(MlgoError, match="expected 4 actions, one per environment, got 2"):
        few.send([0, 1], mask=mask)


def test_copies_have_the_arguments_and_deep_copies_the_random_generators(varied: str) -> None:
    envs = make(INLINE, varied, 2, batch_size=1, autoreset_mode="SameStep", max_episode_steps=2, max_decisions=3)
    envs.reset(seed=3)
    for copied in (pickle.loads(pickle.dumps(envs)), copy.copy(envs)):
        assert data_equivalence(copied.reset(seed=3), envs.reset(seed=3), exact=True)
        assert (copied.batch_size, copied.autoreset_mode) == (1, envs.autoreset_mode)
        steps = [made.step([0, 1]) for _ in range(2) for made in (copied, envs)]
        assert steps[2][3].all()
        assert data_equivalence(steps[2], steps[3], exact=True)
        copied.close()
    with pytest.raises(MlgoError, match=r"expected no running episode for a copy, got some; copy it before reset"):
        copy.deepcopy(envs)
    envs.close()
    fresh = make(INLINE, varied, 2)
    fresh.set_attr("np_random", list(map(np.random.default_rng, (5, 6))))
    copied = copy.deepcopy(fresh)
    for made in (fresh, copied):
        assert made.np_random_seed == (-1, -1)
    assert data_equivalence(copied.reset(), fresh.reset(), exact=True)
    for made in (fresh, copied):
        made.close()


def test_closing_ends_every_compile_and_can_be_repeated(varied: str) -> None:
    before, envs = traces().children, make(INLINE, varied)
    envs.reset()
    envs.step([0, 0, 0])
    assert len(traces().children - before) == 6
    envs.close()
    envs.close()
    assert traces().children <= before
    for use in (envs.reset, envs.async_reset, envs.recv, lambda: envs.step([0] * 3)):
        with pytest.raises(MlgoError, match="expected an open vector environment"):
            use()


def test_an_environment_that_is_forgotten_closes_itself(varied: str) -> None:
    before = traces()
    envs = make(INLINE, varied)
    envs.reset()
    del envs
    assert traces() <= before


def test_crashes_and_resets_in_mid_episode_leave_nothing(varied: str) -> None:
    envs = make(INLINE, varied, 4, autoreset_mode="SameStep", batch_size=3, max_decisions=2, prefetch=2)
    envs.async_reset(seed=0)
    for step in range(20):
        info = envs.recv()[4]
        if step % 5 == 2:
            end_clang(envs, info["env_id"][0])
        if step % 7 == 3:
            envs.async_reset(env_ids=info["env_id"])
        else:
            envs.send([1, 0, 1])
    envs.close()  # the fixture looks for what is left
