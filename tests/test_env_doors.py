"""The methods and attributes of an environment that libraries and scripts use beside `reset()` and `step()`."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.errors import ActionError, CorpusError, MlgoError, UnknownArgumentError
from mlgo_gym.make_env import compiler_environments

INLINE, EVICT = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"

pytestmark = pytest.mark.usefixtures("nothing_is_left")

every = pytest.mark.parametrize("name", compiler_environments())


@pytest.fixture
def env(varied: str) -> Iterator[Any]:
    """An environment of inlining."""
    made = gym.make(INLINE, corpus=varied)
    yield made
    made.close()


def play(env: gym.Env[Any, Any], info: dict[str, Any], most: int = 10_000) -> tuple[float, dict[str, Any]]:
    """Take clang's own choices to the end."""
    for _ in range(most):
        _, reward, terminated, truncated, info = env.step(info["default_action"])
        if terminated or truncated:
            return float(reward), info
    raise AssertionError("the episode has no end")


# Actions


def test_a_batch_of_one_is_an_action(env: Any) -> None:
    env.reset(options={"module": "calls"})
    for action in (np.array([1]), np.array([[0]]), [1]):
        assert "illegal_action" not in env.step(action)[4]
    assert env.unwrapped.actions == (1, 0, 1)


@pytest.mark.parametrize("action", [None, "1", [0, 1], 0.5])
def test_what_is_no_action_raises_and_the_decision_waits_on(env: Any, action: Any) -> None:
    env.reset(seed=1)
    with pytest.raises(ActionError, match="expected an action"):
        env.step(action)
    assert env.step(1)[4]["decision_index"] == 1


def test_an_illegal_action_stands_as_what_replaced_it(env: Any) -> None:
    _, info = env.reset(seed=1)
    assert env.step(7)[4]["illegal_action"]
    assert env.unwrapped.actions == (info["default_action"],)


@every
def test_masks_are_there_for_every_discrete_action(name: str, varied: str) -> None:
    made: Any = gym.make(name, corpus=varied)
    discrete = isinstance(made.action_space, gym.spaces.Discrete)
    for begin in (lambda: None, lambda: made.reset(seed=1)):
        begin()
        masks = made.unwrapped.action_masks()
        assert (masks.shape == (made.action_space.n,) and masks.any()) if discrete else masks is None
    made.close()


# Copies and states


@every
def test_a_deep_copy_in_mid_episode_goes_on_from_there(name: str, varied: str) -> None:
    made: Any = gym.make(name, corpus=varied, max_decisions=6)
    _, info = made.reset(seed=1)
    info = made.step(info["default_action"])[4]
    copied = copy.deepcopy(made)
    assert copied.unwrapped.state() == made.unwrapped.state()
    assert play(copied, info) == play(made, info)
    made.close()
    copied.close()


def test_a_deep_copy_without_an_episode_samples_the_same(env: Any) -> None:
    env.reset(seed=1)
    env.unwrapped.close()
    copied = copy.deepcopy(env)
    assert copied.reset()[1] == env.reset()[1]
    copied.close()


@every
def test_a_state_leads_there_again(name: str, varied: str) -> None:
    made: Any = gym.make(name, corpus=varied).unwrapped
    _, info = made.reset(seed=1)
    observation, *_, info = made.step(info["default_action"])
    state = made.state()
    made.step(info["default_action"])
    assert made.state() != state
    saved = json.loads(json.dumps(state.to_json()))
    again = made.from_state(saved)
    assert made.state() == state == EpisodeState.from_json(saved)
    assert {state: 1}[made.state()] == 1
    assert {key: again[4][key] for key in ("module", "context", "decision_index")} == {
        key: info[key] for key in ("module", "context", "decision_index")
    }
    for ours, theirs in zip(
        gym.spaces.utils.flatten(made.observation_space, again[0]),
        gym.spaces.utils.flatten(made.observation_space, observation),
        strict=True,
    ):
        assert ours == theirs
    made.close()


def test_a_state_of_a_whole_episode_leads_to_its_end(env: Any) -> None:
    _, info = env.reset(seed=1)
    reward, last = play(env, info)
    _, again, terminated, _, info = env.unwrapped.from_state(env.unwrapped.state())
    assert (again, terminated, info) == (reward, True, last)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"digest": "0" * 64}, MlgoError, "with digest 000000000000 and clang"),
        ({"clang": "3.4"}, MlgoError, r"and clang 3\.4, got"),
        ({"module": "gone"}, CorpusError, "no module 'gone'"),
        ({"actions": [1] * 10_000}, MlgoError, "expected an episode with .* decisions, got one with"),
        ({"more": 1}, MlgoError, "expected the data of state"),
    ],
    ids=str,
)
def test_a_state_of_something_else_is_refused(env: Any, change: dict[str, Any], error: type, message: str) -> None:
    env.reset(seed=1)
    with pytest.raises(error, match=message):
        env.unwrapped.from_state({**env.unwrapped.state().to_json(), **change})


def test_without_an_episode_there_is_no_state(env: Any) -> None:
    assert env.unwrapped.actions == ()
    with pytest.raises(ActionError, match="got none; call reset"):
        env.unwrapped.state()


# Modules


def modules(env: Any, count: int, seed: int | None = 0) -> list[str]:
    return [env.reset(seed=seed if number == 0 else None)[1]["module"] for number in range(count)]


def test_modules_come_in_turn(varied: str) -> None:
    made = gym.make(INLINE, corpus=varied, module_order="cycle")
    assert modules(made, 6) == ["again", "calls", "many_calls", "mixed", "again", "calls"]
    assert modules(made, 2) == ["again", "calls"]
    assert modules(made, 1, seed=None) == ["many_calls"]
    made.close()


def test_shuffled_modules_come_once_a_round_and_alike_for_a_seed(varied: str) -> None:
    made = gym.make(INLINE, corpus=varied, module_order="shuffle")
    first = modules(made, 8, seed=3)
    assert {*first[:4]} == {*first[4:]} == {"again", "calls", "many_calls", "mixed"}
    assert modules(made, 8, seed=3) == first
    made.close()


def test_modules_of_weight_zero_never_come(varied: str) -> None:
    made = gym.make(INLINE, corpus=varied, module_order={"m*": 0})
    assert {*modules(made, 12)} == {"again", "calls"}
    made.close()


def test_the_modules_with_decisions_can_be_listed(varied: str) -> None:
    made: Any = gym.make(INLINE, corpus=varied)
    assert list(made.unwrapped.with_decisions().names) == ["again", "calls", "many_calls", "mixed"]
    few = made.unwrapped.with_decisions(1, 10)
    made.close()
    assert "calls" in few.names
    again = gym.make(INLINE, corpus=few)
    assert again.reset(seed=1)[1]["module"] in few.names
    again.close()


# Arguments, infos and forms of observations


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corpsu": "zstd"}, r"unexpected keyword argument 'corpsu'; did you mean corpus\?.*corpus.*vocabulary"),
        ({"vocabluary": 1}, r"did you mean vocabulary\?"),
        ({"xyzzy": 1}, r"unexpected keyword argument 'xyzzy'; expected callee_features, clang, .*corpus"),
    ],
    ids=str,
)
def test_an_unknown_argument_lists_the_known(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownArgumentError, match=message) as raised:
        gym.make("mlgo/InlineIR2Vec-v0", **arguments)
    assert isinstance(raised.value, TypeError)


@every
def test_numeric_infos_have_the_same_keys_and_kinds_at_every_step(name: str, varied: str) -> None:
    made = gym.make(name, corpus=varied, info="numeric", max_decisions=3)
    _, info = made.reset(seed=1)
    infos = [info]
    over = False
    while not over:
        *_, terminated, truncated, info = made.step(info["default_action"])
        over = terminated or truncated
        infos.append(info)
    forms = [{key: (np.asarray(value).dtype, np.shape(value)) for key, value in info.items()} for info in infos]
    assert all(form == forms[0] for form in forms)
    assert all(kind.kind in "biuf" for kind, _ in forms[0].values())
    assert infos[-1]["text"] > 0 == infos[0]["text"]
    names: Any = made.unwrapped
    assert names.corpus.names[infos[0]["module"]] in {"again", "calls", "leaf", "many_calls", "mixed"}
    made.close()


@every
def test_a_vector_is_the_one_form_of_every_environment(name: str, varied: str) -> None:
    made: Any = gym.make(name, corpus=varied, observation="vector", max_decisions=3)
    assert isinstance(made.observation_space, gym.spaces.Box)
    assert made.observation_space.shape == (len(made.unwrapped.feature_names),)
    assert len({*made.unwrapped.feature_names}) > 1
    observation, info = made.reset(seed=1)
    assert observation in made.observation_space
    if "action_mask" in info:
        masks = [place for place, each in enumerate(made.unwrapped.feature_names) if "mask[" in each]
        assert np.array_equal(observation[masks], info["action_mask"])
    play(made, info)
    made.close()


# Rendering


def test_a_limit_of_steps_is_warned_of_with_what_to_do_instead(varied: str) -> None:
    made = gym.make(INLINE, corpus=varied, max_episode_steps=5)
    with pytest.warns(UserWarning, match="max_episode_steps=5 ends long episodes without a reward.*max_decisions=5"):
        made.reset(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.reset()
    made.close()


@every
def test_each_step_is_a_picture(name: str, varied: str) -> None:
    pytest.importorskip("PIL", reason="the extra render is not installed")
    made = gym.make(name, corpus=varied, render_mode="rgb_array", max_decisions=2)
    pictures: list[Any] = []
    _, info = made.reset(seed=1)
    pictures.append(made.render())
    over = False
    while not over:
        *_, terminated, truncated, info = made.step(info["default_action"])
        over = terminated or truncated
        pictures.append(made.render())
    made.close()
    assert {(picture.shape, picture.dtype.name) for picture in pictures} == {((288, 480, 3), "uint8")}
    assert all(not np.array_equal(one, other) for one, other in pairwise(pictures))


def test_for_a_human_every_step_is_printed(varied: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = gym.make(INLINE, corpus=varied, render_mode="human", max_decisions=1)
    _, info = made.reset(seed=1)
    assert "inlining decision 0 of" in capsys.readouterr().out
    play(made, info)
    printed = capsys.readouterr().out
    assert "is compiled, after 1 decisions" in printed
    assert "clang alone" in printed
    assert made.render() is None
    made.close()


def test_for_a_human_a_failure_is_printed_too(broken: Path, varied: str, capsys: pytest.CaptureFixture[str]) -> None:
    made: Any = gym.make(INLINE, corpus=varied, render_mode="human", compile_options={"timeout": 5})
    made.reset(seed=1)
    made.unwrapped._stepper.episode.session.kill()
    made.step(0)
    assert "failed after 1 decisions" in capsys.readouterr().out
    made.close()
