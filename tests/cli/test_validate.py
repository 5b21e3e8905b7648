"""`mlgo-gym validate` and `mlgo-gym replay`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from mlgo_gym.attribution.recipe import write_recipe
from mlgo_gym.cli.application import application
from mlgo_gym.envs import InlineEnv
from mlgo_gym.evaluation import evaluate
from mlgo_gym.search.recipes import make_recipe
from mlgo_gym.trajectories import trace


def run(*arguments: object) -> Result:
    return CliRunner().invoke(application, list(map(str, arguments)))


def test_an_evaluation_is_reproduced_or_the_command_fails(corpus: Path, tmp_path: Path) -> None:
    evaluate("mlgo/Inline-v0", policies=["never"], corpus=str(corpus), output=tmp_path)
    assert run("validate", tmp_path, "--corpus", corpus).stdout == "reproduced 2 of 2 episodes\n"
    episodes = tmp_path / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    next(line for line in lines if line["module"] == "calls")["metrics"]["text"][0] += 8
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("validate", tmp_path, "--corpus", corpus, "--json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert (data["episodes"], data["reproduced"]) == (2, 1)
    assert [each["module"] for each in data["different"]] == ["calls"]


def test_a_trace_is_replayed(corpus: Path, tmp_path: Path) -> None:
    trace("mlgo/Inline-v0", "never", corpus=str(corpus), output=tmp_path / "trace")
    assert run("replay", tmp_path / "trace").stdout == "reproduced 2 of 2 episodes\n"


def test_a_recipe_is_replayed_on_a_corpus(corpus: Path, tmp_path: Path) -> None:
    env = InlineEnv(corpus=str(corpus))
    module = env.corpus.module("calls")
    recipe = make_recipe(env, module, (0,) * sum(env.decisions(module).values()))
    write_recipe(recipe, tmp_path / "calls.recipe")
    result = run("replay", tmp_path / "calls.recipe", "--corpus", corpus, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["text"] == recipe.text
