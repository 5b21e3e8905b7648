"""Properties of every registered environment, in every form of its observations."""

import copy
import json
import pickle
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence

from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.tasks.infos import DECISION, END, FIRST, info_keys
from mlgo_gym.tasks.measurement import PROJECT_METRICS, SIZE_METRICS
from mlgo_gym.testing import check_environment
from tests.fakes import drive
from tests.fakes.drive import Step, failed_end, play

every = pytest.mark.parametrize("name", compiler_environments())
pytestmark = pytest.mark.usefixtures("nothing_is_left")

SHORT = 6


def make(name: str, corpus: str, **options: Any) -> Any:
    return gym.make(name, corpus=corpus, max_decisions=SHORT, **options).unwrapped


def legal_action(env: Any, chance: np.random.Generator) -> Any:
    mask = env.action_masks()
    return chance.random(1, np.float32) if mask is None else int(chance.choice(np.flatnonzero(mask)))


def finish(env: Any, seed: int) -> list[Step]:
    """Take random legal actions to the end."""
    chance = np.random.default_rng(seed)
    steps = drive.finish(env, {}, lambda _: legal_action(env, chance))
    assert not steps[-1].truncated, steps[-1].info
    return steps


@every
@pytest.mark.parametrize("observation", ["flat", "vector"])
def test_it_keeps_the_rules_of_gymnasium_and_repeats_an_episode(name: str, observation: str, varied: str) -> None:
    check_environment(name, corpus=varied, max_decisions=SHORT, observation=observation)


@every
def test_an_episode_has_the_documented_info_keys_and_no_others(name: str, varied: str) -> None:
    with make(name, varied) as env:
        keys = info_keys(env.task)
        possible = {when: {key.name for key in keys if when in key.when.split(", ")} for when in (FIRST, DECISION, END)}
        certain = {
            when: {key.name for key in keys if when in key.when.split(", ") and not key.condition}
            for when in (DECISION, END)
        }
        _, info = env.reset(options={"module": "mixed"})
        number = 0
        while "default_action" in info:
            assert certain[DECISION] <= {*info} <= possible[DECISION] | possible[FIRST]
            assert (info["module"], info["decision_index"]) == ("mixed", number)
            _, reward, terminated, _, info = env.step(info["default_action"])
            number += 1
            assert (reward, terminated) == (info.get("reduction", 0.0), number == SHORT)
        assert info["decisions"] == number == len(env.actions)
        assert certain[END] <= {*info} <= possible[END]
        assert "text" in info


@every
@pytest.mark.parametrize("scope", ["module", "function"])
def test_the_last_info_has_the_same_keys_and_types_after_a_failure(name: str, scope: str, varied: str) -> None:
    task = make(name, varied).task
    if scope == "function" and not task.has_contexts:
        return
    metrics: list[Any] = [*({*task.metrics} - {*PROJECT_METRICS}), {"text": 1, "max_frame": 2}]
    further = [{"callee_features": True, "credit": True}] if name.startswith("mlgo/Inline-") else []
    arguments = [{"metric": metric} for metric in metrics] + further
    for options in arguments:
        env = make(name, varied, scope=scope, **options)
        env.reset(seed=1, options={"module": "mixed"})
        infos = [finish(env, 1)[-1].info, failed_end(env, "mixed").info]
        finished, failed = ({key: type(value) for key, value in info.items()} for info in infos)
        assert failed == finished, options
        assert bool(infos[1]["error"]) > bool(infos[0]["error"])
        # Whatever is rewarded, a user sees the other sizes.
        assert scope == "function" or all({size, f"baseline_{size}"} <= {*finished} for size in SIZE_METRICS)
        env.close()


@every
def test_numeric_infos_have_every_number_of_full_ones_at_every_step(name: str, varied: str) -> None:
    infos: dict[str, list[dict[str, Any]]] = {}
    for form in ("full", "numeric"):
        with make(name, varied, info=form, metric={"text": 1, "max_frame": 2}) as env:
            _, info = env.reset(options={"module": "mixed"})
            infos[form] = [info, *(step.info for step in finish(env, 1))]
    first, *_, last = numeric = infos["numeric"]
    types = [{key: (np.asarray(value).dtype, np.shape(value)) for key, value in info.items()} for info in numeric]
    assert all(one == types[0] for one in types)
    assert all(kind.kind in "biuf" for kind, _ in types[0].values())
    assert last["text"] > 0 == first["text"]
    assert env.corpus.names[first["module"]] == "mixed"
    numbers = {key: value for key, value in infos["full"][-1].items() if isinstance(value, (int, float))}
    assert {"max_frame", "baseline_max_frame", "grown_frames", "weighted", "text"} <= {*numbers}
    assert {key: last[key] for key in numbers} == numbers


@every
def test_both_forms_of_an_observation_say_the_same(name: str, varied: str) -> None:
    flat, whole = (gym.make(name, corpus=varied, observation=form).unwrapped for form in ("flat", "vector"))
    start: dict[str, Any] = {"module": "mixed"}
    (seen, _), (vector, info) = flat.reset(options=start), whole.reset(options=start)
    names = whole.get_wrapper_attr("feature_names")
    is_mask = np.array(["mask[" in name for name in names])
    others = [name for name in names if "mask[" not in name and not name.startswith("task_")]
    assert others == [*flat.get_wrapper_attr("feature_names")]
    pending = True
    while pending:
        pending = "default_action" in info
        parts = seen if isinstance(seen, dict) else {"observations": seen}
        kind = np.eye(3)[parts["task"]] if "task" in parts else ()
        assert vector[~is_mask].tolist() == [*kind, *parts["observations"]]
        mask = parts.get("action_mask", np.zeros(0)).tolist()
        assert vector[is_mask].tolist() == mask
        if pending and mask:
            assert mask == info["action_mask"].tolist()
            assert mask == whole.get_wrapper_attr("action_masks")().tolist()
            assert mask[info["default_action"]]
        if pending:
            seen, *_ = flat.step(info["default_action"])
            vector, *_, info = whole.step(info["default_action"])
    assert not parts["observations"].any()
    assert not mask or mask == np.eye(len(mask))[0 if "task" in parts else -1].tolist()
    flat.close()
    whole.close()


@every
def test_copies_continue_or_begin_anew(name: str, varied: str) -> None:
    env = make(name, varied)
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    masks = env.action_masks()
    assert masks.tolist() == [1] * env.action_space.n if discrete else masks is None
    first = env.reset(seed=3)
    second = env.step(first[1]["default_action"])
    copied = copy.deepcopy(env)
    state = copied.state()
    assert state == env.state() == EpisodeState.from_json(json.loads(json.dumps(state.to_json())))
    assert data_equivalence(finish(copied, 2), finish(env, 2), exact=True)
    assert env.state() != state
    restored = env.reset(options={"state": state.to_json()})
    assert data_equivalence(restored, (second[0], second[4]), exact=True)
    assert env.state() == state
    pickled = pickle.loads(pickle.dumps(env))
    assert data_equivalence(pickled.reset(seed=3), first, exact=True)
    for one in (env, copied, pickled):
        one.close()


@every
def test_each_step_is_a_text(name: str, varied: str, capsys: pytest.CaptureFixture[str]) -> None:
    environments = {mode: make(name, varied, render_mode=mode) for mode in ("ansi", "human")}
    for env in environments.values():
        env.reset(seed=1, options={"module": "mixed"})
    text = environments["ansi"].render()
    assert "decision 0 of mixed" in text
    assert "clang's own choice " in text
    assert capsys.readouterr().out == f"{text}\n\n"
    assert environments["human"].render() is None
    texts = [text]
    while len(texts) <= SHORT:
        environments["ansi"].step(legal_action(environments["ansi"], np.random.default_rng(1)))
        texts.append(environments["ansi"].render())
    assert all(one != other for one, other in pairwise(texts))
    for env in environments.values():
        env.close()


@every
def test_a_specification_survives_json(name: str, varied: str) -> None:
    env = gym.make(name, corpus=varied, max_decisions=2, compile_options={"extra_flags": ["-mllvm", "-stats=false"]})
    assert env.spec is not None
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec is not None
    assert again.spec.kwargs == env.spec.kwargs
    assert play(again)[-1].info["decisions"] == 2


def test_a_specification_has_the_name_of_an_unchanged_corpus(varied: str) -> None:
    corpus = open_corpus(varied)
    for env in (gym.make("mlgo/Inline-v0", corpus=corpus), gym.make_vec("mlgo/Inline-v0", 2, corpus=corpus)):
        assert env.spec is not None
        assert EnvSpec.from_json(env.spec.to_json()).kwargs["corpus"] == varied
        env.close()
    with gym.make("mlgo/Inline-v0", corpus=corpus[:1]) as env:
        assert env.spec is not None
        assert isinstance(env.spec.kwargs["corpus"], Corpus)


def test_infos_of_inlining_are_json(varied: str) -> None:
    with make("mlgo/Inline-v0", varied, credit=True, callee_features=True) as env:
        _, info = env.reset(seed=1)
        infos = [info, *(step.info for step in finish(env, 1)), failed_end(env).info]
        assert {"site", "callee"} <= {*info}
        assert {"function_sizes", "rewards"} <= {*infos[-2]}
        for info in infos:
            assert json.loads(json.dumps(info)).keys() == info.keys()
