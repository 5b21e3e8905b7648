"""A network imitates whichever baseline did best, and what was compiled is not compiled again."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli.application import application
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.recipe import keep_recipe
from mlgo_gym.training.baselines import PlacedAnswers, Played, play
from mlgo_gym.training.best_of import MIXED, BestOf
from mlgo_gym.training.clone import Answers
from mlgo_gym.training.mixing import mix

pytestmark = pytest.mark.timeout(300)
assert mlgo_gym


def played(answers: dict[tuple[str, int, int], int], functions: dict[str, int]) -> Played:
    count = len(answers)
    given = Answers(
        np.zeros((count, 1), np.float32), np.array([*answers.values()], np.int64), np.ones((count, 2), np.bool_)
    )
    return Played(given, -float(sum(functions.values())), tuple(answers), functions)


PLAYS = {
    "a": played({("f", 0, 0): 0, ("g", 0, 0): 0}, {"f": 10, "g": 20}),
    "b": played({("f", 0, 0): 1, ("g", 0, 0): 1}, {"f": 15, "g": 12}),
}


def test_a_mixture_takes_each_function_from_where_it_is_smallest() -> None:
    asked = []

    def compile_mixture(answers: dict[tuple[str, int, int], int]) -> Played:
        asked.append(answers)
        return played(answers, {"f": 10, "g": 12})

    mixed = mix(PLAYS, compile_mixture)
    assert asked == [{("f", 0, 0): 0, ("g", 0, 0): 1}]
    assert mixed is not None
    assert mixed.reward == -22


def test_what_does_not_come_out_as_it_was_is_left_out_of_a_second_mixture() -> None:
    plays = {
        "a": played({("f", 0, 0): 0, ("g", 0, 0): 0, ("h", 0, 0): 0}, {"f": 10, "g": 20, "h": 10}),
        "b": played({("f", 0, 0): 1, ("g", 0, 0): 1, ("h", 0, 0): 1}, {"f": 90, "g": 12, "h": 8}),
    }
    asked = []

    def compile_mixture(answers: dict[tuple[str, int, int], int]) -> Played:
        asked.append([*answers.values()])
        return played(answers, {"f": 10, "g": 12, "h": 30} if len(asked) == 1 else {"f": 10, "g": 12, "h": 10})

    mixed = mix(plays, compile_mixture)
    assert [sorted(answers) for answers in asked] == [[0, 1, 1], [0, 0, 1]]
    assert mixed is not None
    assert mixed.reward == -32


def test_a_function_that_another_baseline_dropped_is_not_smaller_there() -> None:
    plays = {"a": PLAYS["a"], "b": played({("f", 0, 0): 1}, {"f": 40})}
    assert mix(plays, lambda _: pytest.fail("nothing is to be mixed")) is None


def test_a_recipe_is_a_baseline_and_the_best_is_kept(varied: str, tmp_path: Path) -> None:
    from mlgo_gym.search.recipe_making import make_recipe

    env = gym.make("mlgo/Inline-v0", corpus=varied, credit=True).unwrapped
    assert isinstance(env, CompilerEnv)
    module = env.corpus.module("mixed")
    nothing = play(env, PlacedAnswers({}), {"module": "mixed"})
    actions = tuple(int(answer) for answer in nothing.answers.answers)
    recipe = make_recipe(env, module, actions)
    keep_recipe(recipe, tmp_path, module.bitcode.read_bytes())
    best = BestOf(varied, ("never", f"recipes:{tmp_path}", "always"))
    line, answers = best.one(best.make(), "mixed")
    assert answers is not None
    assert line["best"] == max(line["rewards"].values())
    assert line["rewards"][f"recipes:{tmp_path}"] == pytest.approx(nothing.reward)
    line, _ = best.one(best.make(), "calls")
    assert not [name for name in line["rewards"] if name.startswith("recipes")]


def test_a_policy_that_sees_calls_is_a_baseline(varied: str) -> None:
    best = BestOf(varied, ("default", "inline-oz-calls"))
    line, answers = best.one(best.make(), "many_calls")
    assert answers is not None
    assert set(line["rewards"]) >= {"default", "inline-oz-calls"}


def test_look_ahead_is_never_behind_clang_where_it_copies_function_by_function(varied: str, tmp_path: Path) -> None:
    best = BestOf(varied, ("default", "look-ahead:2"), environment="mlgo/RegAllocEvict-v0")
    line, answers = best.one(best.make(), "mixed")
    assert answers is not None
    assert line["rewards"]["look-ahead:2"] >= line["rewards"]["default"]
    with pytest.raises(MlgoError, match="write it as in look-ahead:4"):
        list(BestOf(varied, ("look-ahead:x",)).run(tmp_path))


def test_answers_of_other_baselines_are_refused_and_finished_modules_are_not_compiled_again(
    varied: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = BestOf(varied, ("default", "never"), limit=2)
    lines = list(best.run(tmp_path))
    assert len(lines) == 2
    monkeypatch.setattr(BestOf, "one", lambda *_: pytest.fail("it was finished"))
    assert sorted(line["module"] for line in best.run(tmp_path)) == sorted(line["module"] for line in lines)
    with pytest.raises(MlgoError, match="answers of another kind"):
        list(BestOf(varied, ("never", "default"), limit=2).run(tmp_path))


@pytest.mark.libraries
@pytest.mark.parametrize("environment", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"])
def test_the_command_writes_the_same_network_again(environment: str, varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    other = "never" if environment == "mlgo/Inline-v0" else "first_legal"
    for name in ("a", "b"):
        output = tmp_path / f"{name}.safetensors"
        arguments = [
            *("train", "best-of", "--corpus", varied, "--environment", environment, "--baseline", "default"),
            *("--baseline", other, "--hidden", "8", "--steps", "30", "--limit", "3", "--output", str(output)),
        ]
        answer = CliRunner().invoke(application, arguments)
        assert answer.exit_code == 0, answer.output
        assert "the best of them" in answer.output
    network = Network.load(tmp_path / "a.safetensors")
    assert network.outputs == (2 if environment == "mlgo/Inline-v0" else 33)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert MIXED not in {"default", other}
    assert 1 <= len((tmp_path / "a.safetensors.training.txt").read_text().splitlines()) <= 3
