"""`mlgo-gym replay`: run a trace again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def replay(
    folder: Annotated[Path, typer.Argument(help="The --output of `trace`.")],
    *,
    corpus: Annotated[str | None, typer.Option(help="Where the corpus is now.", show_default="where it was")] = None,
    clang: Annotated[str | None, typer.Option(help="The clang to use, of the version that made the trace.")] = None,
) -> None:
    """Run the episodes of a trace again, and compare what is measured with what was.

    The answers are sent ahead, so that clang never waits.

    Exit status 1: an episode was not reproduced.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.cli.verdicts import conclude
    from mlgo_gym.trajectories import replay as run_again

    with progress_over(None, "Episodes") as advance:
        verdicts = run_again(folder, corpus=corpus, clang=clang, progress=lambda _: advance())
    conclude(verdicts)
