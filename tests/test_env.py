"""The loop that is the same for every task, shown on inlining."""

from __future__ import annotations

import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import ActionError, CompilerError, CorpusError, MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.fakes.drive import clang_of, play
from tests.traces import alive, ends_within, traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def env(corpus: Path) -> Iterator[InlineEnv]:
    made = InlineEnv(corpus=str(corpus))
    yield made
    made.close()


@pytest.fixture(params=["damaged", "no bitcode"])
def with_broken(request: pytest.FixtureRequest, corpus: Path, broken: Path, tmp_path: Path) -> Path:
    """A corpus of a module that works and one that clang cannot read."""
    folder = tmp_path / "with_broken"
    folder.mkdir()
    shutil.copy(corpus / "calls.bc", folder)
    folder.joinpath("broken.bc").write_bytes(broken.read_bytes() if request.param == "damaged" else b"text")
    return folder


def end_clang(env: InlineEnv, number: signal.Signals = signal.SIGSEGV) -> None:
    """Let the running compile crash, and wait until it has."""
    pid = clang_of(env)
    os.kill(pid, number)
    assert ends_within(pid, 10)


def test_what_is_written_into_the_metadata_of_one_stays_there(env: InlineEnv) -> None:
    env.metadata["autoreset_mode"] = "Disabled"
    assert "autoreset_mode" not in InlineEnv.metadata
    assert "autoreset_mode" not in InlineEnv().metadata


# Choosing a module


def test_a_module_is_chosen_by_its_name(env: InlineEnv) -> None:
    _, info = env.reset(options={"module": "more/calls"})
    assert info["module"] == "more/calls"


def test_modules_are_sampled_by_the_seed(env: InlineEnv) -> None:
    def sampled() -> list[str]:
        return [env.reset(seed=5 if number == 0 else None)[1]["module"] for number in range(12)]

    first = sampled()
    assert set(first) == {"calls", "more/calls"}
    assert sampled() == first


def test_a_module_without_decisions_is_never_sampled(env: InlineEnv) -> None:
    assert "leaf" in env.corpus
    assert "leaf" not in {env.reset(seed=seed)[1]["module"] for seed in range(20)}


@pytest.mark.parametrize("known", [False, True], ids=["not yet known", "known"])
def test_asking_for_a_module_without_decisions_is_a_clear_error(env: InlineEnv, known: bool) -> None:
    for _ in range(2 if known else 1):
        with pytest.raises(
            CorpusError, match=r"expected a decision on inlining in module 'leaf' of corpus '.*', got none"
        ):
            env.reset(options={"module": "leaf"})


def test_a_corpus_without_any_decision_is_a_clear_error(leaf: Path) -> None:
    env = InlineEnv(corpus=str(leaf))
    with pytest.raises(CorpusError, match=r"got none among the 1 modules of corpus .leaf.; choose"):
        env.reset()


def test_an_unknown_module_is_an_error_that_suggests_one(env: InlineEnv) -> None:
    with pytest.raises(CorpusError, match=r"has no module 'cals'; did you mean .*calls"):
        env.reset(options={"module": "cals"})


def test_unknown_options_are_refused(env: InlineEnv) -> None:
    with pytest.raises(MlgoError, match=r"got .*'modul'"):
        env.reset(options={"modul": "calls"})


def test_a_corpus_object_can_be_given(corpus: Path, toolchain: Toolchain) -> None:
    env = InlineEnv(corpus=open_corpus(corpus, toolchain=toolchain).filter(names="more/*"))
    assert env.reset()[1]["module"] == "more/calls"
    env.close()


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"observation": "image"},
        {"reward": "speed"},
        {"metric": "lines"},
        {"error_reward": "ignore"},
        {"render_mode": "window"},
        {"max_decisions": 0},
        {"compile_options": {"timeout": 0}},
        {"compile_options": {"timeout": -1.0}},
        {"compile_options": {"flags": "-Oz -fPIC"}},
        {"compile_options": {"extra_flags": "-w"}},
        {"compile_options": {"preoptimize": True}},
        {"compile_options": {"speed": 1}},
        {"scope": "loop"},
    ],
    ids=str,
)
def test_an_impossible_argument_is_refused_by_name(arguments: dict[str, Any]) -> None:
    (name,) = arguments.get("compile_options", arguments)
    with pytest.raises(MlgoError, match=name):
        InlineEnv(**arguments)


def test_nothing_is_opened_or_started_before_the_first_reset() -> None:
    before = traces()
    env = InlineEnv(corpus="builtin")
    assert traces() <= before
    env.close()


def test_flags_choose_how_modules_without_recorded_ones_are_compiled(corpus: Path) -> None:
    together, apart = (
        play(InlineEnv(corpus=str(corpus), compile_options={"flags": flags}), module="calls")[-1].info
        for flags in (["-Oz"], ["-Oz", "-ffunction-sections"])
    )
    assert apart["object"] > together["object"]


def test_extra_flags_are_for_the_baseline_too(corpus: Path) -> None:
    plain, padded = (
        play(InlineEnv(corpus=str(corpus), compile_options={"extra_flags": extra}), module="calls")[-1].info
        for extra in ([], ["-mllvm", "-align-all-functions=6"])
    )
    assert padded["text"] == padded["baseline_text"] > plain["text"]


# Steps


def test_an_action_needs_an_episode(env: InlineEnv) -> None:
    with pytest.raises(ActionError, match=r"call reset\(\)"):
        env.step(0)
    play(env)
    with pytest.raises(ActionError, match=r"call reset\(\)"):
        env.step(0)


def test_rewards_are_zero_until_the_end(env: InlineEnv) -> None:
    steps = play(env, 0)
    assert [step.reward for step in steps[:-1]] == [0.0] * 8
    assert steps[-1].reward < 0
    assert [step.terminated for step in steps] == [False] * 8 + [True]
    assert not any(step.truncated for step in steps)


def test_decisions_are_numbered(env: InlineEnv) -> None:
    _, info = env.reset(options={"module": "calls"})
    assert info["decision_index"] == 0
    numbers = [env.step(info["default_action"])[4]["decision_index"] for _ in range(8)]
    assert numbers == list(range(1, 9))


def test_a_reset_in_mid_episode_ends_the_compile_before(env: InlineEnv) -> None:
    env.reset()
    first = clang_of(env)
    env.reset()
    assert not alive(first)
    assert alive(clang_of(env))


def test_a_budget_of_decisions_hands_the_rest_to_clang(env: InlineEnv, corpus: Path) -> None:
    budgeted = play(InlineEnv(corpus=str(corpus), max_decisions=3), 0, module="calls")
    by_hand = play(env, [0] * 3 + [None] * 6, module="calls")
    assert len(budgeted) == 3
    assert budgeted[-1].terminated
    assert (budgeted[-1].info["decisions"], budgeted[-1].info["handed_over"]) == (3, 6)
    assert (by_hand[-1].info["decisions"], by_hand[-1].info["handed_over"]) == (9, 0)
    assert budgeted[-1].info["text"] == by_hand[-1].info["text"]
    assert budgeted[-1].reward == by_hand[-1].reward


def test_a_budget_beyond_the_last_decision_changes_nothing(corpus: Path) -> None:
    steps = play(InlineEnv(corpus=str(corpus), max_decisions=100), 0, module="calls")
    assert (steps[-1].info["decisions"], steps[-1].info["handed_over"]) == (9, 0)


# Failures


def test_a_crash_in_mid_episode_truncates_and_says_why(corpus: Path) -> None:
    env = InlineEnv(corpus=str(corpus), error_reward=-3.0)
    env.reset(options={"module": "calls"})
    env.step(1)
    end_clang(env)
    observation, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated) == (-3.0, False, True)
    assert (info["error"]["kind"], info["error"]["exit_status"]) == ("signal", -signal.SIGSEGV)
    assert "SIGSEGV" in info["error"]["message"]
    assert (info["module"], info["decisions"]) == ("calls", 2)
    assert env.observation_space.contains(observation)
    assert (info["text"], info["baseline_text"]) == (0, 0)
    assert math.isnan(info["reduction"])


def test_after_a_crash_the_next_episode_works(env: InlineEnv) -> None:
    env.reset()
    end_clang(env)
    assert env.step(1)[3]
    assert play(env)[-1].terminated


def test_a_crash_raises_where_that_is_wanted(corpus: Path) -> None:
    env = InlineEnv(corpus=str(corpus), error_reward=None)
    env.reset()
    end_clang(env)
    with pytest.raises(CompilerError, match="SIGSEGV"):
        env.step(1)
    assert play(env)[-1].terminated


def test_a_clang_that_falls_silent_truncates_at_the_deadline(corpus: Path) -> None:
    env = InlineEnv(corpus=str(corpus), compile_options={"timeout": 0.3})
    env.reset()
    pid = clang_of(env)
    os.kill(pid, signal.SIGSTOP)
    _, _, _, truncated, info = env.step(1)
    assert truncated
    assert info["error"]["kind"] == "timeout"
    assert "within 0.3 s" in info["error"]["message"]
    assert not alive(pid)


def test_a_module_that_clang_cannot_read_is_passed_over_and_reported(with_broken: Path) -> None:
    env = InlineEnv(corpus=str(with_broken))
    infos = [env.reset(seed=seed)[1] for seed in range(12)]
    env.close()
    assert {info["module"] for info in infos} == {"calls"}
    skipped = [info["skipped"] for info in infos if "skipped" in info]
    assert skipped
    assert all(set(reasons) == {"broken"} for reasons in skipped)


def test_asking_for_a_module_that_clang_cannot_read_is_an_error(with_broken: Path) -> None:
    env = InlineEnv(corpus=str(with_broken))
    with pytest.raises((CompilerError, CorpusError), match=r"Invalid encoding|expected LLVM bitcode"):
        env.reset(options={"module": "broken"})
    assert play(env, module="calls")[-1].terminated


def test_a_corpus_of_nothing_but_failures_is_an_error(broken: Path) -> None:
    env = InlineEnv(corpus=str(broken))
    with pytest.raises(CompilerError, match="Invalid encoding") as caught:
        env.reset()
    assert str(broken) in caught.value.command


def test_flags_that_clang_refuses_are_an_error_in_its_words(corpus: Path) -> None:
    env = InlineEnv(corpus=str(corpus), compile_options={"extra_flags": ["-no-such-flag"]})
    with pytest.raises(MlgoError, match="unknown argument: '-no-such-flag'"):
        env.reset(options={"module": "calls"})


def test_an_object_of_another_format_is_a_clear_error(corpus: Path) -> None:
    env = InlineEnv(corpus=str(corpus), compile_options={"extra_flags": ["-triple", "x86_64-apple-macosx"]})
    last = play(env, module="calls")[-1]
    assert last.truncated
    assert last.info["error"]["kind"] == "object"
    assert "expected an ELF object" in last.info["error"]["message"]


# Lifetime


def test_closing_ends_the_compile_and_can_be_repeated(env: InlineEnv) -> None:
    env.reset()
    pid = clang_of(env)
    env.close()
    env.close()
    assert not alive(pid)


def test_a_closed_environment_can_begin_anew(env: InlineEnv) -> None:
    env.reset()
    env.close()
    assert play(env)[-1].terminated


def test_a_copy_by_pickle_has_no_episode_and_leaves_ours_alone(env: InlineEnv) -> None:
    _, info = env.reset(seed=3)
    copy = pickle.loads(pickle.dumps(env))
    with pytest.raises(ActionError):
        copy.step(0)
    assert copy.reset(seed=3)[1] == info
    copy.close()
    assert env.step(info["default_action"])[4]["decision_index"] == 1


FORK = """
import sys
import gymnasium as gym
make = lambda: gym.make("mlgo_gym:mlgo/Inline-v0", corpus=sys.argv[1])
env = make()
_, info = env.reset(seed=1)
envs = gym.vector.AsyncVectorEnv([make] * 2, context="fork")
envs.reset(seed=2)
for _ in range(12):
    envs.step([1, 1])
envs.close()
steps, over = 0, False
while not over:
    _, _, over, truncated, info = env.step(info.get("default_action", 0))
    assert not truncated, info
    steps += 1
print(steps)
"""


def test_forked_workers_leave_the_episode_of_the_parent_alone(corpus: Path) -> None:
    said = subprocess.check_output([sys.executable, "-W", "ignore", "-c", FORK, str(corpus)], text=True)
    assert said == "9\n"


@pytest.mark.slow
def test_300_episodes_of_every_kind_leave_nothing(corpus: Path) -> None:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    env.reset(seed=0)
    env.close()
    before = traces()
    for number in range(300):
        _, info = env.reset()
        for _ in range(number % 11):
            _, _, terminated, truncated, info = env.step(number % 2)
            if terminated or truncated:
                break
        if number % 50 == 0:
            end_clang(env.unwrapped) if "decision_index" in info else None  # type: ignore[arg-type]
    env.close()
    assert traces() <= before
