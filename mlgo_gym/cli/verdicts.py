"""What `replay` and `validate` print: the episodes that were not reproduced, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from mlgo_gym.trajectories.replay import Verdict

DIFFERENT = 1
"""The exit status when an episode did not come out again."""


def conclude(verdicts: Sequence[Verdict]) -> None:
    """Print the verdicts, and end the command with status 1 if an episode differs, or if there is none."""
    different = [verdict for verdict in verdicts if verdict.problem]
    for verdict in different:
        typer.echo(f"{verdict.policy} on {verdict.module}: {verdict.problem}", err=True)
    typer.echo(f"{len(verdicts) - len(different)} of {len(verdicts)} episodes came out as recorded")
    if different or not verdicts:
        raise typer.Exit(DIFFERENT)
