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
from mlgo_gym.evaluation.record import MAX_BYTES, pack_actions, unpack_actions
from mlgo_gym.integrations.replay import validate

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


def problems(results: Path, corpus: Path) -> dict[tuple[str, str], str]:
    verdicts = validate(results, corpus=str(corpus))
    return {(verdict.policy, verdict.module): verdict.problem for verdict in verdicts}


def test_every_result_is_reproduced_unless_its_size_is_wrong_or_its_actions_are_missing(
    results: Path, corpus: Path
) -> None:
    found = problems(results, corpus)
    policies = ("random", PLAIN, "never")
    assert {*found} >= {(policy, module) for policy in policies for module in ("calls", "more/calls")}
    assert not any(found.values())

    def change(line: Any) -> None:
        if line["module"] == "calls":
            line["metrics"]["text"][0] -= 8

    edit(results, change)
    wrong = {key for key, problem in problems(results, corpus).items() if problem}
    assert wrong == {(policy, "calls") for policy in policies}
    edit(results, lambda line: line["metrics"].pop("llvm_size", None))
    assert {problem.partition(",")[0] for key, problem in problems(results, corpus).items()} == {
        "llvm_size was not measured"
    }
    edit(results, lambda line: line.pop("actions"))
    without = {key: problem for key, problem in problems(results, corpus).items() if key[0] != PLAIN and problem}
    assert {policy for policy, _ in without} == {"random", "never"}
    assert all("expected recorded actions" in problem for problem in without.values())


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
