"""Scores of candidates: rules and programs, failures, and the words for their author."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import MlgoError, score

SMALL: dict[str, Any] = {"compiles": 4, "seconds": 300.0}


def test_a_rule_and_the_same_rule_as_a_program_have_one_score(own_cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.rule"
    path.write_text("cost_estimate < 300  # too much")
    rule = score(path, **SMALL, end_above=9)
    program = score("inline = lambda features: features['cost_estimate'] < 300", **SMALL, end_above=9)
    assert rule == program == score(path, **SMALL, end_above=9)
    assert rule.complete
    assert rule.value > 0
    assert "(no interval)" in str(rule), "the sample has too few projects"
    assert rule.regressions[0][1] >= rule.regressions[-1][1] > 0
    assert "inlines" in rule.decisions[0]
    assert "cost_estimate=" in str(rule)
    early = score("cost_estimate < 300", **SMALL, explain=False)
    assert (early.complete, early.modules < rule.modules, early.decisions) == (False, True, ())


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("no_such_feature < 3", "no_such_feature"),
        ("cost_estimate <", "expected a condition"),
        ("def inline(features):\n    return features['x']", "KeyError: 'x' in line 2"),
        ("import os\ndef inline(features):\n    os._exit(3)", "its process died: exit status 3"),
        ("def other(): pass", "expected a function inline"),
    ],
)
def test_a_candidate_that_fails_says_why(source: str, error: str, own_cache: Path) -> None:
    failed = score(source, **SMALL)
    assert failed.value == math.inf
    assert error in failed.error
    assert str(failed).startswith("failed: ")


def test_a_candidate_without_an_end_is_stopped(own_cache: Path) -> None:
    failed = score("def inline(features):\n    while True: pass", compiles=1, seconds=3)
    assert "expected an end within 3 s" in failed.error


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match="expected compiles ≥ 1"):
        score("cost_estimate < 5", compiles=0)
    with pytest.raises(MlgoError, match="cannot be read"):
        score(tmp_path / "none.py")
