"""`mlgo-gym leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path

from mlgo_gym.evaluation import evaluate
from tests.cli.command import run, run_json


def test_a_submission_is_added_shown_and_verified_until_it_is_forged(tmp_path: Path) -> None:
    results, board, seen = tmp_path / "run", tmp_path / "board", tmp_path / "seen.txt"
    evaluate("mlgo/Inline-v0", policies=["never"], corpus="builtin@Os", split="test", limit=2, output=results)
    seen.write_text(run("leaderboard", "digests", "builtin@Oz:test").stdout)
    submission = ("--board", board, "--partial", "--name")
    added = run("leaderboard", "add", results, *submission, "ours", "--training-digests", seen, "--sample", "1")
    assert added.exit_code == 0
    assert "added ours: reproduced 1 of 2 modules" in added.stdout
    assert "trained on 2 of its 2 modules" in added.stdout
    assert "ours" in run("leaderboard", "show", board).stdout
    assert "| ours |" in run("leaderboard", "show", board, "--format", "markdown").stdout
    assert run_json("leaderboard", "show", board)[0]["verified"] == 1
    assert run("leaderboard", "verify", board).stdout == "ours: reproduced 2 of 2 modules\n"
    assert run_json("leaderboard", "show", board)[0]["verified"] == 2

    forged = board / "ours" / "results"
    episodes = forged / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    lines[0]["metrics"]["text"][0] -= 1
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    verified = run("leaderboard", "verify", board, "--json")
    (data,) = json.loads(verified.stdout)
    assert [difference["module"] for difference in data["different"]] == [lines[0]["module"]]
    assert f"ours: {lines[0]['module']}: text was" in verified.stderr
    assert verified.exit_code == 1
    refused = run("leaderboard", "add", forged, *submission, "theirs")
    assert refused.exit_code == 1
    assert f"  {lines[0]['module']}: text was" in refused.stderr
    assert not (board / "theirs").exists()
