"""Scores of candidates: rules and programs, failures, and the words for their author."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import MlgoError, score

SMALL: dict[str, Any] = {"compiles": 2, "seconds": 300.0}


def test_a_rule_and_the_same_rule_as_a_program_have_one_score(tmp_path: Path) -> None:
    path = tmp_path / "a.rule"
    path.write_text("cost_estimate < 300  # too much")
    rule = score(path, **SMALL, end_above=9)
    program = score("inline = lambda features: features['cost_estimate'] < 300", **SMALL, end_above=9)
    assert rule == program
    stored = score(path, **SMALL, end_above=9)
    assert (stored, stored.cpu_seconds) == (rule, rule.cpu_seconds)
    assert (rule.compiles, rule.modules) == (2, 2)
    assert rule.decisions > 100
    assert rule.cpu_seconds > 0
    assert rule.complete
    assert rule.value > 0
    assert "(no interval)" in str(rule), "the sample has too few projects"
    assert rule.regressions[0][1] >= rule.regressions[-1][1] > 0
    assert "inlines" in rule.costly[0]
    assert "cost_estimate=" in str(rule)


@pytest.mark.slow
def test_the_example_of_the_page_makes_code_smaller() -> None:
    page = Path(__file__).parents[2] / "docs" / "how_to" / "heuristics.md"
    (program,) = re.findall(r'score\("""(.*?)"""', page.read_text(encoding="utf-8"), re.DOTALL)
    assert score(program, compiles=8, explain=False).value < -0.01


@pytest.mark.slow
def test_a_bad_candidate_ends_early_but_not_after_a_few_modules() -> None:
    bad = "cost_estimate < 3000"
    few = score(bad, compiles=8, end_above=0.001, explain=False)
    assert (few.complete, few.compiles, few.costly) == (True, 8, ())
    many = score(bad, compiles=16, end_above=0.001, explain=False)
    assert (many.complete, many.compiles) == (False, 8)
    assert many.value > 0.001


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("no_such_feature < 3", "no_such_feature"),
        ("cost_estimate <", "expected a condition"),
        ("def inline(features):\n    return features['x']", "KeyError: 'x' in line 2"),
        ("import os\ndef inline(features):\n    os._exit(3)", "its process died: exit status 3"),
        ("def other(): pass", "expected inline(features) or act(observation, info)"),
        ("def inline(features):\n    raise SystemExit(0)", "SystemExit: 0 in line 2"),
        ("def act(observation, info):\n    return 2", "expected the action 0 or 1, got 2"),
        ("def act(observation, info):\n    return info['module'] == 'c/lz'", "KeyError: 'module' in line 2"),
        (
            "def act(observation, info):\n    raise ValueError(*sorted(info))  # not 'code'",
            "ValueError: ('callee', 'code', 'context', 'decision_index', 'default_action', 'site') in line 2",
        ),
        (
            "from mlgo_gym.errors import NoDecisionError\ndef inline(features):\n    raise NoDecisionError('none')",
            "NoDecisionError: none in line 3",
        ),
    ],
)
def test_a_candidate_that_fails_says_why(source: str, error: str) -> None:
    failed = score(source, **SMALL)
    assert failed.value == math.inf
    assert error in failed.error
    assert str(failed).startswith("failed: ")


@pytest.mark.parametrize("program", ["while True: pass", "signal.setitimer(signal.ITIMER_REAL, 0); time.sleep(600)"])
def test_a_candidate_without_an_end_is_stopped(program: str) -> None:
    failed = score(f"import signal, time\ndef inline(features):\n    {program}", compiles=1, seconds=3)
    assert "expected an end within 3 s" in failed.error


def test_a_program_reads_the_code_and_one_that_reads_a_file_is_run_again(tmp_path: Path) -> None:
    limit = tmp_path / "limit"
    shorter = f"len(info['code'].ir().callee_code) < int(open({str(limit)!r}).read())"
    program = f"def act(observation, info):\n    return {shorter}"
    values = []
    for number in (0, 100_000):
        limit.write_text(str(number))
        values.append(score(program, compiles=2, explain=False).value)
    assert values[0] < values[1]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match="expected compiles ≥ 1"):
        score("cost_estimate < 5", compiles=0)
    with pytest.raises(MlgoError, match="cannot be read"):
        score(tmp_path / "none.py")
