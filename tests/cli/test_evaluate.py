"""`mlgo-gym evaluate`, `report`, `validate` and `replay`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlgo_gym.attribution.recipe import write_recipe
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.model_files import MODEL_POLICIES
from mlgo_gym.policies.rules import RULES
from mlgo_gym.search.recipes import make_recipe
from mlgo_gym.trajectories import trace
from tests.cli.command import run, run_json

EVALUATE = ("evaluate", "mlgo/Inline-v0")


def test_the_table_is_printed_and_printed_again_and_validated(corpus: Path, tmp_path: Path) -> None:
    arguments = (*EVALUATE, "--corpus", corpus, "--policy", "default,never", "--output", tmp_path)
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    equal = "`default` equals plain clang on every module."
    for word in ("default", "never", "text bytes", "3 modules (3 at Oz)", equal):
        assert word in first.stdout
    again = run("report", tmp_path).stdout
    assert set(first.stdout.splitlines()) <= set(again.splitlines())
    assert "Where never loses most" in again
    assert run(*arguments).stdout == first.stdout
    assert run("validate", tmp_path, "--corpus", corpus).stdout == "reproduced 4 of 4 episodes\n"
    episodes = tmp_path / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    next(line for line in lines if line["module"] == "calls")["metrics"]["text"][0] += 8
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("validate", tmp_path, "--corpus", corpus, "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["episodes"], data["reproduced"]) == (1, 4, 3)
    assert [episode["module"] for episode in data["different"]] == ["calls"]


def test_arguments_and_lists_of_policies_reach_the_evaluation(varied: str) -> None:
    settings = ("--set", "reward=log", "--set", "strict=true", "--max-decisions", 3)
    policies = ("--policy", "default, never,clang:-O1,-w", "--policy", "never,clang:-mllvm,-inline-threshold=20")
    options = ("--limit", 2, "--metric", "object", "--clang", "bundled", "--envs", 3, "--split", "train")
    data = run_json(*EVALUATE, "--corpus", varied, *options, *settings, *policies)["configuration"]
    assert (data["metric"], data["modules"], data["split"]) == ("object", 2, "train")
    assert data["arguments"] == {"metric": "object", "reward": "log", "max_decisions": 3, "strict": True}
    assert list(data["policies"]) == ["default", "never", "clang:-O1,-w", "clang:-mllvm,-inline-threshold=20"]


def test_the_help_names_every_policy_and_what_follows_an_evaluation() -> None:
    words = " ".join(run("evaluate", "--help").stdout.replace("│", " ").split())
    for name in (*RULES, *MODEL_POLICIES, "clang:FLAGS", "package.module:Name", "file.py:Name"):
        assert name.removesuffix("FILE") in words
    for command in ("validate", "trace", "replay"):
        assert f"mlgo-gym {command}" in words


def test_failed_episodes_and_missing_results_show_in_the_exit_status(broken: Path, tmp_path: Path) -> None:
    result = run(*EVALUATE, "--corpus", broken)
    assert result.exit_code == 1
    assert "Failed: 1 episode:\n  default on broken: " in result.stdout
    with pytest.raises(MlgoError, match=r"expected results in .*, got none"):
        run("report", tmp_path)


def test_traces_and_recipes_are_replayed(corpus: Path, tmp_path: Path) -> None:
    trace("mlgo/Inline-v0", "never", corpus=str(corpus), output=tmp_path / "trace")
    assert run("replay", tmp_path / "trace").stdout == "reproduced 2 of 2 episodes\n"
    env = InlineEnv(corpus=str(corpus))
    module = env.corpus.module("calls")
    recipe = make_recipe(env, module, (0,) * sum(env.decisions(module).values()))
    write_recipe(recipe, tmp_path / "calls.recipe")
    assert run_json("replay", tmp_path / "calls.recipe", "--corpus", corpus)["text"] == recipe.text
