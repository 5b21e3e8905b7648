"""What `replay` and `validate` print: the episodes that were not reproduced, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import typer

from mlgo_gym.cli.output import FAILED, say, show
from mlgo_gym.trajectories.replay import Verdict


def conclude(verdicts: Sequence[Verdict], as_json: bool) -> None:
    """Print the verdicts, and end the command with status 1 if an episode differs, or if there is none."""
    different = [verdict for verdict in verdicts if verdict.problem]
    for verdict in different:
        say(f"{verdict.policy} on {verdict.module}: {verdict.problem}", err=True)
    reproduced = len(verdicts) - len(different)
    data = {"episodes": len(verdicts), "as_recorded": reproduced, "different": [asdict(each) for each in different]}
    show(as_json, data, f"{reproduced} of {len(verdicts)} episodes came out as recorded")
    if different or not verdicts:
        raise typer.Exit(FAILED)
