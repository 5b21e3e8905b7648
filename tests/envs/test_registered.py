"""Properties of every registered environment."""

from __future__ import annotations

import inspect
import json
import pickle
from multiprocessing import resource_tracker
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.utils.env_checker import check_env, data_equivalence

import mlgo_gym
from mlgo_gym.make_env import compiler_environments
from tests.conftest import MakeBitcode
from tests.fakes.drive import play
from tests.traces import traces

pytestmark = pytest.mark.parametrize("name", compiler_environments())


@pytest.fixture(scope="module")
def any_task(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with two modules in which every task has decisions."""
    folder = tmp_path_factory.mktemp("any_task")
    bitcode = make_bitcode("many_calls.c").read_bytes()
    for name in ("one", "two"):
        folder.joinpath(f"{name}.bc").write_bytes(bitcode)
    return str(folder)


def make(name: str, any_task: str, **options: Any) -> gym.Env[Any, Any]:
    return gym.make(name, corpus=any_task, **options)


def test_it_is_registered_under_our_namespace_and_nothing_else_is(name: str) -> None:
    ours = {spec for spec in gym.registry if spec.startswith("mlgo/")}
    assert ours == {*mlgo_gym.ENVIRONMENTS}
    assert name in ours


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_gymnasiums_checker_has_nothing_to_say(name: str, any_task: str, observation: str) -> None:
    env = make(name, any_task, observation=observation, render_mode="ansi")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.usefixtures("nothing_is_left")
def test_it_is_deterministic_for_equal_seed_and_actions(name: str, any_task: str) -> None:
    first, second = (play(make(name, any_task), seed=7) for _ in range(2))
    assert len(first) > 1
    assert data_equivalence(first, second, exact=True)


@pytest.mark.usefixtures("nothing_is_left")
def test_random_actions_of_its_space_bring_an_episode_to_its_end(name: str, any_task: str) -> None:
    env = make(name, any_task)
    env.reset(seed=1)
    env.action_space.seed(1)
    while True:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert not truncated, info
        if terminated:
            break
        assert reward == 0.0
    assert np.isfinite(float(reward))
    env.close()


@pytest.mark.usefixtures("nothing_is_left")
def test_a_pickled_copy_of_an_episode_under_way_begins_anew(name: str, any_task: str) -> None:
    env = make(name, any_task).unwrapped
    observation, info = env.reset(seed=3)
    env.step(info["default_action"])
    copy = pickle.loads(pickle.dumps(env))
    assert data_equivalence(copy.reset(seed=3), (observation, info), exact=True)
    copy.close()
    env.close()


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_it_runs_in_gymnasiums_vector_environments(name: str, any_task: str, mode: str) -> None:
    resource_tracker.ensure_running()
    before = traces()
    spawn = {"context": "spawn"} if mode == "async" else None
    envs = gym.make_vec(
        f"mlgo_gym:{name}",
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs=spawn,
        corpus=any_task,
        max_decisions=5,
    )
    try:
        observations, _ = envs.reset(seed=1)
        envs.action_space.seed(1)
        ends = np.zeros(2, int)
        for _ in range(12):
            assert envs.observation_space.contains(observations)
            observations, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
            assert not truncated.any(), infos
            ends += terminated
        assert (ends >= 2).all()
    finally:
        envs.close()
    after = traces()
    # Python keeps descriptors of the memory that it shared with workers.
    assert after.children <= before.children
    assert after.scratch <= before.scratch


@pytest.mark.usefixtures("nothing_is_left")
def test_a_decision_is_shown_in_words(name: str, any_task: str) -> None:
    env = make(name, any_task, render_mode="ansi")
    _, info = env.reset()
    shown: Any = env.render()
    assert isinstance(shown, str)
    assert "decision 0 of" in shown
    assert info["module"] in shown
    assert "clang would " in shown
    env.close()


@pytest.mark.usefixtures("nothing_is_left")
def test_for_a_human_decisions_are_printed_as_they_come(
    name: str, any_task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make(name, any_task, render_mode="human", max_decisions=2)
    assert "human" in env.metadata["render_modes"]
    _, info = env.reset()
    assert "decision 0 of" in capsys.readouterr().out
    env.step(info["default_action"])
    assert "clang" in capsys.readouterr().out
    assert env.render() is None
    env.close()


@pytest.mark.usefixtures("nothing_is_left")
def test_a_specification_survives_json(name: str, any_task: str) -> None:
    env = make(
        name, any_task, max_decisions=2, compile_options={"extra_flags": ["-mllvm", "-inline-threshold=0"]}, strict=True
    )
    assert env.spec is not None
    text = env.spec.to_json()
    json.loads(text)
    again = gym.make(EnvSpec.from_json(text))
    assert again.spec is not None
    assert again.spec.kwargs == env.spec.kwargs
    assert play(again)[-1].info["decisions"] == 2


def test_its_docstring_is_its_manual(name: str) -> None:
    entry_point = gym.spec(name).entry_point
    assert isinstance(entry_point, str)
    manual = inspect.getdoc(load_env_creator(entry_point))
    assert manual is not None
    wanted = ("Observation space", "Action space", "Rewards", "Episode end", "Arguments", "Version history")
    assert [heading for heading in wanted if f"## {heading}" not in manual] == []
