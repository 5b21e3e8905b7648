"""Results of an evaluation are reproduced without the policies."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.evaluation.actions import MAX_BYTES, pack_actions, unpack_actions
from mlgo_gym.trajectories import validate

PLAIN = "clang:-mllvm,-inline-threshold=0"


@pytest.fixture
def results(corpus: Path, tmp_path: Path) -> Path:
    evaluate("mlgo/Inline-v0", policies=["random", PLAIN, "never"], corpus=str(corpus), output=tmp_path / "r", seed=3)
    return tmp_path / "r"


def edit(folder: Path, change: Any) -> None:
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_every_result_is_reproduced(results: Path, corpus: Path) -> None:
    verdicts = validate(results, corpus=str(corpus))
    assert {(verdict.policy, verdict.module) for verdict in verdicts} >= {
        (policy, module) for policy in ("random", PLAIN, "never") for module in ("calls", "more/calls")
    }
    assert [verdict for verdict in verdicts if verdict.problem] == []


def test_a_wrong_size_is_a_problem(results: Path, corpus: Path) -> None:
    def change(line: Any) -> None:
        if line["module"] == "calls":
            line["metrics"]["text"][0] -= 8

    edit(results, change)
    problems = {
        (verdict.policy, verdict.module) for verdict in validate(results, corpus=str(corpus)) if verdict.problem
    }
    assert problems == {(policy, "calls") for policy in ("random", PLAIN, "never")}


def test_results_without_actions_are_not_valid(results: Path, corpus: Path) -> None:
    edit(results, lambda line: line.pop("actions"))
    problems = [verdict for verdict in validate(results, corpus=str(corpus)) if verdict.problem]
    assert {verdict.policy for verdict in problems} == {"random", "never"}
    assert all("expected recorded actions" in verdict.problem for verdict in problems)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (gym.spaces.Discrete(2), [0, 1, 1, 0]),
        (gym.spaces.Discrete(33), [32, 0, 7]),
        (gym.spaces.Box(0, 1, (1,), np.float32), [np.array([0.1], np.float32), np.array([1], np.float32)]),
    ],
)
def test_packed_actions_are_the_same_actions(space: gym.Space[Any], actions: list[Any]) -> None:
    again = unpack_actions(pack_actions(actions, space), space)
    assert len(again) == len(actions)
    assert all(np.array_equal(one, other) and one in space for one, other in zip(again, actions, strict=True))


def test_actions_that_would_fill_the_memory_are_refused() -> None:
    bomb = base64.b64encode(zlib.compress(bytes(MAX_BYTES + 2))).decode()
    assert len(bomb) < 100_000
    with pytest.raises(MlgoError, match="more than 67,108,864 bytes"):
        unpack_actions(bomb, gym.spaces.Discrete(2))
