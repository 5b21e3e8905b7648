"""The loop that is the same for every task, shown on inlining."""

import copy
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import data_equivalence

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.errors import ActionError, CompilerError, CorpusError, MlgoError
from tests.conftest import PROGRAMS, copy_modules
from tests.fakes.drive import failed_end, play
from tests.fakes.stepping import clang_of
from tests.traces import alive, traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def env(corpus: Path) -> Iterator[InlineEnv]:
    with InlineEnv(corpus=str(corpus)) as made:
        yield made


@pytest.fixture(params=["damaged", "no bitcode"])
def with_broken(request: pytest.FixtureRequest, corpus: Path, broken: Path, tmp_path: Path) -> Path:
    """A corpus of a module that works and one that clang cannot read."""
    other = broken if request.param == "damaged" else PROGRAMS / "calls.c"
    return copy_modules(tmp_path / "with_broken", {"calls": corpus / "calls.bc", "broken": other})


def modules(env: gym.Env[Any, Any], count: int, seed: int | None = 0) -> list[str]:
    return [env.reset(seed=None if number else seed)[1]["module"] for number in range(count)]


# Arguments


def test_nothing_is_opened_or_started_before_the_first_reset() -> None:
    before = traces()
    with InlineEnv(corpus="builtin"):
        assert traces() <= before
        envs = gym.make_vec("mlgo/Inline-v0", num_envs=2, corpus="builtin")
        assert traces().children <= before.children
        envs.close()


def test_extra_flags_are_for_the_baseline_too(corpus: Path) -> None:
    plain, padded = (
        play(InlineEnv(corpus=str(corpus), compile_options={"extra_flags": extra}), module="calls")[-1].info
        for extra in ([], ["-mllvm", "-align-all-functions=6"])
    )
    assert padded["text"] == padded["baseline_text"] > plain["text"]


# Modules


def test_orders_and_weights_of_modules(varied: str) -> None:
    cycle, shuffle, weighted = (
        gym.make("mlgo/Inline-v0", corpus=varied, module_order=order) for order in ("cycle", "shuffle", {"m*": 0})
    )
    assert modules(cycle, 6) == ["again", "calls", "many_calls", "mixed", "again", "calls"]
    assert modules(cycle, 2) == ["again", "calls"]
    assert modules(cycle, 1, seed=None) == ["many_calls"]
    first = modules(shuffle, 8, seed=3)
    assert {*first[:4]} == {*first[4:]} == {"again", "calls", "many_calls", "mixed"}
    assert modules(shuffle, 8, seed=3) == first
    assert {*modules(weighted, 12)} == {"again", "calls"}
    for env in (cycle, shuffle, weighted):
        env.close()


def test_a_curriculum_changes_the_order_between_episodes(varied: str) -> None:
    easy = {"calls": 1.0, "*": 0.0}
    with InlineEnv(corpus=varied) as env:
        before = modules(env, 8, seed=2)
        env.set_module_order(easy)
        assert {*modules(env, 8, seed=2)} == {"calls"}
        with env.fork() as fork:
            fork.set_module_order("cycle")
            copied = copy.deepcopy(fork)
            fork_order = modules(fork, 5, seed=None)
            assert fork_order == modules(copied, 5, seed=None) == ["again", "calls", "many_calls", "mixed", "again"]
            copied.close()
        assert {*modules(env, 4, seed=None)} == {"calls"}
        refused: list[tuple[Any, str]] = [
            ("shufle", "expected module_order as one of .*, got 'shufle'; did you mean 'shuffle'"),
            ({"calls": -1}, "expected weights ≥ 0"),
            (["calls"], "expected module_order as a string or a dict"),
            ({"cals": 1}, "got cals, which match no other module"),
        ]
        for order, message in refused:
            with pytest.raises(MlgoError, match=message):
                env.set_module_order(order)
        env.set_module_order("random")
        assert modules(env, 8, seed=2) == before


def test_the_modules_with_a_number_of_decisions_are_a_corpus(varied: str) -> None:
    with InlineEnv(corpus=varied) as env:
        assert list(env.with_decisions().names) == ["again", "calls", "many_calls", "mixed"]
        counts = {name: sum(env.decisions(env.corpus.module(name)).values()) for name in env.corpus.names}
        assert (counts["calls"], counts["leaf"]) == (9, 0)
        few = env.with_decisions(9, 9)
        assert list(env.with_decisions(10).names) == [name for name, count in counts.items() if count > 9]
    assert [*few.names] == [name for name, count in counts.items() if count == 9]
    with InlineEnv(corpus=few) as env:
        assert env.reset(seed=1)[1]["module"] in few.names


# Steps


def test_an_episode_has_nine_numbered_decisions_and_a_reward_at_its_end(env: InlineEnv) -> None:
    assert (env.actions, env.render()) == ((), None)
    for _ in range(2):
        for needs_an_episode in (env.state, lambda: env.step(0)):
            with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\)") as caught:
                needs_an_episode()
            assert isinstance(caught.value, ActionError)
        steps = play(env, 0, module="calls")
        assert [step.info["decision_index"] for step in steps[:-1]] == [*range(1, 9)]
        assert [step.reward for step in steps[:-1]] == [0.0] * 8
        assert steps[-1].reward == 1 - steps[-1].info["text"] / steps[-1].info["baseline_text"] < 0
        assert [(step.terminated, step.truncated) for step in steps] == [(False, False)] * 8 + [(True, False)]
    env.reset()
    env.step(0)
    calls: list[str] = []
    pipe: list[int] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "mlgo_gym" in frame.f_globals.get("__name__", ""):
            calls.append(frame.f_code.co_name)
        elif event == "c_call" and argument in (os.write, os.read):
            pipe.append(len(calls))

    sys.setprofile(note)
    env.step(0)
    sys.setprofile(None)
    # As CONTRIBUTING says: at most ten functions to the pipe, and ten back.
    assert max(pipe[0], len(calls) - pipe[-1]) <= 10, calls
    first = clang_of(env)
    env.reset()
    assert not alive(first)
    assert alive(clang_of(env))


def test_a_budget_of_decisions_hands_the_rest_to_clang(env: InlineEnv, corpus: Path) -> None:
    by_hand = play(env, [0] * 3 + [None] * 6, module="calls")[-1]
    for budget, actions in ((3, 0), (100, [0] * 3 + [None] * 6)):
        steps = play(InlineEnv(corpus=str(corpus), max_decisions=budget), actions, module="calls")
        assert steps[-1].terminated
        taken = min(budget, 9)
        assert (len(steps), steps[-1].info["decisions"], steps[-1].info["handed_over"]) == (taken, taken, 9 - taken)
        assert (steps[-1].info["text"], steps[-1].reward) == (by_hand.info["text"], by_hand.reward)


# Failures


@pytest.mark.parametrize(
    ("arguments", "failure"),
    [
        ({"reward": "relative"}, lambda text: -10.0),
        ({"reward": "bytes"}, lambda text: -10.0 * text),
        ({"metric": {"text": 300.0, "object": 1.0}}, lambda text: -3010.0),
        ({"metric": {"text": 0.25}}, lambda text: -2.5),
        ({"reward": "bytes", "error_reward": -1.5}, lambda text: -1.5),
        ({"metric": {"text": 2.0}, "error_reward": -1e-3}, lambda text: -1e-3),
    ],
)
def test_a_failure_pays_the_least(arguments: dict[str, Any], failure: Callable[[int], float], varied: str) -> None:
    env = InlineEnv(corpus=varied, **arguments)
    failed = failed_end(env, "calls")
    worst = min((play(env, action, module="calls")[-1] for action in (0, 1)), key=lambda step: step.reward)
    lowest = failure(worst.info["baseline_text"])
    assert failed.reward == pytest.approx(lowest)
    if "error_reward" in arguments:  # where the reward itself would be lower
        assert worst.reward == lowest
        assert worst.info["reduction"] < 0
    else:
        assert lowest < worst.reward < 0


def test_a_module_that_clang_cannot_read_is_skipped_or_if_named_an_error(with_broken: Path) -> None:
    env = InlineEnv(corpus=str(with_broken))
    infos = [env.reset(seed=seed)[1] for seed in range(12)]
    assert {info["module"] for info in infos} == {"calls"}
    skipped = [info["skipped"] for info in infos if "skipped" in info]
    assert skipped
    assert all(set(reasons) == {"broken"} for reasons in skipped)
    with pytest.raises((CompilerError, CorpusError), match=r"Invalid encoding|expected LLVM bitcode"):
        env.reset(options={"module": "broken"})
    assert play(env, module="calls")[-1].terminated


# States and copies


def test_a_state_is_restored_through_wrappers(varied: str) -> None:
    """Alone and in a vector environment, of a module or of a function."""
    cases: list[tuple[str, dict[str, Any], dict[str, str]]] = [
        ("mlgo/Inline-v0", {}, {"module": "calls"}),
        ("mlgo/RegAllocEvict-v0", {"scope": "function"}, {"module": "mixed", "function": "crowd"}),
    ]
    for name, options, start in cases:
        with gym.make(name, corpus=varied, max_episode_steps=50, **options) as env:
            inner: Any = env.unwrapped
            _, info = env.reset(options=start)
            for _ in range(2):
                observation, *_, info = env.step(info["default_action"])
            saved = inner.state()
            following = env.step(info["default_action"])
            for state in (saved, saved.to_json()):
                restored = env.reset(options={"state": state})
                assert data_equivalence(restored, (observation, info), exact=True)
                assert inner.state() == saved
                assert data_equivalence(env.step(info["default_action"]), following, exact=True)
        envs = gym.make_vec(name, 2, corpus=varied, **options)
        _, infos = envs.reset(options={"state": [saved, None]})
        assert infos["decision_index"].tolist() == [2, 0]
        assert envs.reset(options={"state": saved.to_json()})[1]["decision_index"].tolist() == [2, 2]
        envs.close()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"digest": "0" * 64}, MlgoError, "with digest 000000000000 and clang"),
        ({"environment": "OtherEnv"}, MlgoError, "expected a state of InlineEnv, got one of OtherEnv"),
        ({"clang": "3.4"}, MlgoError, r"and clang 3\.4, got"),
        ({"module": "gone"}, CorpusError, "no module 'gone'"),
        ({"actions": [1] * 100}, MlgoError, "expected a decision after 100 actions, got the end of the episode after"),
        ({"more": 1}, MlgoError, "expected the data of state"),
    ],
    ids=str,
)
def test_another_state_is_refused(env: InlineEnv, change: dict[str, Any], error: type[MlgoError], message: str) -> None:
    env.reset(seed=1)
    state = {**env.state().to_json(), **change}
    with pytest.raises(error, match=message):
        env.reset(options={"state": state})
    for value in (None, 5, "state", {**state, "flags": 3}):
        with pytest.raises(MlgoError, match="expected the data of state"):
            EpisodeState.from_json(value)  # type: ignore[arg-type] # a wrong use


def test_a_state_is_refused_with_other_flags(env: InlineEnv, corpus: Path) -> None:
    env.reset(seed=1)
    flags = {"extra_flags": ["-mllvm", "-inline-threshold=0"]}
    other = InlineEnv(corpus=str(corpus), compile_options=flags)
    with other, pytest.raises(MlgoError, match="expected the flags of the state"):
        other.reset(options={"state": env.state()})
