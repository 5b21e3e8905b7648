"""Calls and attributes of a vector environment reach each environment; `batch_size` concerns `recv()` alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.vector_env import CompilerVectorEnv
from tests.fakes.stepping import EVICT, INLINE, make, make_sync

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def envs(varied: str) -> Iterator[CompilerVectorEnv]:
    made = make(INLINE, varied)
    yield made
    made.close()


@pytest.fixture
def pair(varied: str) -> Iterator[tuple[CompilerVectorEnv, SyncVectorEnv]]:
    """Our vector environment and Gymnasium's, after the same reset and two steps."""
    ours, theirs = (make_vec(INLINE, varied, max_decisions=4, render_mode="ansi") for make_vec in (make, make_sync))
    for envs in (ours, theirs):
        envs.reset(seed=3)
        envs.step([1, 0, 1])
        envs.step([0, 0, 1])
    yield ours, theirs  # type: ignore[misc] # one of each
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "name", ["actions", "metric", "feature_names", "np_random_seed", "render", "action_masks", "action_space"]
)
def test_calls_return_the_values_of_each_environment(name: str, pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    for ask in ("call", "get_attr"):
        assert str(getattr(ours, ask)(name)) == str(getattr(theirs, ask)(name))
    assert str(ours.np_random_seed) == str(theirs.np_random_seed)
    assert [generator.random() for generator in ours.np_random] == [
        generator.random() for generator in theirs.np_random
    ]


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


@pytest.mark.parametrize("name", ["step", "reset", "close", "from_state", "_end_episode"])
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


@pytest.mark.parametrize("seed", ["5", 1.5, -1, True, [1, -2, 3], [1, 2.0, 3], [1, 2]], ids=str)
def test_seeds_are_integers(seed: Any, envs: CompilerVectorEnv) -> None:
    with pytest.raises(MlgoError, match=r"expected (seed|3 seeds)"):
        envs.reset(seed=seed)


# The batch size


def test_the_batch_size_changes_neither_resets_nor_steps(varied: str) -> None:
    each: dict[str, Any] = {"max_decisions": 3, "strict": False}
    few, all_of_them = (make(EVICT, varied, 4, **each, **options) for options in ({"batch_size": 2}, {}))
    for envs in (few, all_of_them):
        envs.action_space.seed(0)
    ours, theirs = few.reset(seed=1), all_of_them.reset(seed=1)
    for _ in range(8):
        assert gym.utils.env_checker.data_equivalence(ours, theirs, exact=True)
        actions = few.action_space.sample()
        ours, theirs = few.step(actions), all_of_them.step(actions)  # type: ignore[assignment]
        assert few.observation_space.contains(ours[0])
    few.close()
    all_of_them.close()


def test_gymnasiums_statistics_follow_all_environments(varied: str) -> None:
    envs = RecordEpisodeStatistics(make(INLINE, varied, 4, batch_size=2, max_decisions=2))
    envs.reset(seed=1)
    envs.step(np.ones(4, int))
    *_, info = envs.step(np.ones(4, int))
    assert info["episode"]["l"].tolist() == [2] * 4
    envs.close()


def test_a_step_refuses_environments_that_are_running(varied: str) -> None:
    envs = make(INLINE, varied, 3, batch_size=1)
    with pytest.raises(ActionError, match="expected a pending decision, got none"):
        envs.step([0, 0, 0])
    envs.reset(options={"module": "calls"})
    envs.send([0], [1])
    with pytest.raises(MlgoError, match=r"expected a ready environment, got 1, which is running; recv\(\) it first"):
        envs.step([0, 0, 0])
    assert envs.recv()[4]["env_id"].tolist() == [1]
    *_, info = envs.step([0, 0, 0])
    assert info["decision_index"].tolist() == [1, 2, 1]
    assert "env_id" not in info
    envs.close()
    with pytest.raises(MlgoError, match="expected an open vector environment"):
        envs.recv()
