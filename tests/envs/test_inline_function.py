"""Inlining episodes of one function: decisions elsewhere are clang's, and the reward is what the function's moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

RECURSIVE = """
static int one(int x) { return x * 3 + 1; }
static int pong(int n);
static int ping(int n) { return n > 3 ? pong(n - 2) + one(n) : 1; }
static int pong(int n) { return n > 5 ? ping(n - 1) + one(n) : 2; }
int top(int x) { return one(x + 1) + ping(x) + pong(x); }
"""


@pytest.fixture(scope="module")
def bitcode(make_bitcode: MakeBitcode) -> Path:
    return make_bitcode("families.c")


@pytest.fixture(scope="module")
def recursive(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "recursive.c"
    source.write_text(RECURSIVE)
    return make_bitcode(source)


def test_an_episode_has_the_decisions_of_its_function_alone(bitcode: Path) -> None:
    whole = InlineEnv(corpus=str(bitcode), credit=True)
    places = []
    _, info = whole.reset(seed=0)
    ended = False
    while not ended:
        places.append(info["site"])
        _, _, ended, _, info = whole.step(info["default_action"])
    whole.close()
    assert len(set(places)) == len(places)
    env = InlineEnv(corpus=str(bitcode), scope="function", reward="bytes", credit=True)
    for function, count in env.decisions(env.corpus[0]).items():
        _, info = env.reset(options={"module": "families", "function": function})
        found, ended = [], False
        while not ended:
            found.append(info["site"])
            _, reward, ended, _, info = env.step(info["default_action"])
        assert found == [place for place in places if place[0] == function]
        assert len(found) == count == info["decisions"] == len(info["credit"])
        assert info["context"] == function
        assert reward == info["saved"] == 0
    env.close()


def test_the_reward_is_what_its_decisions_moved(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), scope="function", reward="bytes", credit=True)
    rewards = []
    for function in env.decisions(env.corpus[0]):
        _, info = env.reset(options={"module": "families", "function": function})
        ended = False
        while not ended:
            _, reward, ended, _, info = env.step(1 - info["default_action"])
        assert reward == info["saved"] == info["baseline_text"] - info["text"]
        assert sum(info["credit"]) == pytest.approx(reward)
        rewards.append(reward)
    assert len(set(rewards)) > 3
    env.close()


def test_functions_are_sampled_by_the_seed(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), scope="function")
    drawn = [env.reset(seed=seed)[1]["context"] for seed in (1, 2, 3, 4, 5, 1)]
    assert drawn[0] == drawn[-1]
    assert len(set(drawn)) > 2
    env.close()


def test_a_component_is_found_by_one_of_its_functions(recursive: Path) -> None:
    env = InlineEnv(corpus=str(recursive), scope="function")
    assert set(env.decisions(env.corpus[0])) == {"ping, pong", "top"}
    for name in ("pong", "ping, pong"):
        assert env.reset(options={"module": "recursive", "function": name})[1]["context"] == "ping, pong"
    env.close()


def test_a_function_without_a_decision_is_an_error(recursive: Path) -> None:
    env = InlineEnv(corpus=str(recursive), scope="function")
    with pytest.raises(CorpusError, match="function 'one' of module 'recursive'"):
        env.reset(options={"module": "recursive", "function": "one"})
    env.close()


def test_a_budget_hands_the_rest_of_the_function_to_clang(bitcode: Path) -> None:
    env = InlineEnv(corpus=str(bitcode), scope="function", max_decisions=1, credit=True, reward="bytes")
    _, info = env.reset(options={"module": "families", "function": "clipped"})
    _, reward, ended, _, info = env.step(1 - info["default_action"])
    assert ended
    assert info["decisions"] == 1
    assert info["handed_over"] > 0
    assert info["credit"] == (reward,)
    env.close()
