"""`mlgo-gym leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.evaluation import evaluate


def command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(application, ["leaderboard", *map(str, arguments)])
    return result.exit_code, result.stdout


def test_a_submission_is_added_shown_and_verified_until_it_is_forged(tmp_path: Path) -> None:
    run, board, seen = tmp_path / "run", tmp_path / "board", tmp_path / "seen.txt"
    evaluate("mlgo/Inline-v0", policies=["never"], corpus="builtin@Os", split="test", limit=2, output=run)
    status, printed = command("digests", "builtin@Oz:test")
    assert status == 0
    seen.write_text(printed)
    status, printed = command(
        "add", run, "--board", board, "--name", "ours", "--partial", "--training-digests", seen, "--sample", "1"
    )
    assert status == 0
    assert "added ours: reproduced 1 of 2 modules" in printed
    assert "trained on 2 of its 2 modules" in printed
    assert "ours" in command("show", board)[1]
    assert "| ours |" in command("show", board, "--format", "markdown")[1]
    assert json.loads(command("show", board, "--json")[1])[0]["verified"] == 1
    assert command("verify", board) == (0, "ours: reproduced 2 of 2 modules\n")
    assert command("verify", board, "--sample", "1")[0] == 0
    assert json.loads(command("show", board, "--json")[1])[0]["verified"] == 2

    episodes = board / "ours" / "results" / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    lines[0]["metrics"]["text"][0] -= 1
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = CliRunner().invoke(application, ["leaderboard", "verify", str(board), "--json"])
    (data,) = json.loads(result.stdout)
    assert [each["module"] for each in data["different"]] == [lines[0]["module"]]
    assert f"ours: {lines[0]['module']}: text was" in result.stderr
    assert result.exit_code == 1
    forged = board / "ours" / "results"
    result = CliRunner().invoke(
        application, ["leaderboard", "add", str(forged), "--board", str(board), "--name", "theirs", "--partial"]
    )
    assert result.exit_code == 1
    assert f"  {lines[0]['module']}: text was" in result.stderr
    assert not (board / "theirs").exists()
