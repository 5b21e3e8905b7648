"""`mlgo-gym validate`: make the results of an evaluation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption
from mlgo_gym.cli.trust import TrustOption


def validate(
    folder: Annotated[Path, typer.Argument(help="The --output of `evaluate`.")],
    *,
    corpus: Annotated[str | None, typer.Option(help="Where the corpus is now.", show_default="by its name")] = None,
    clang: Annotated[str | None, typer.Option(help="The clang to use, of the version that made the results.")] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the episodes of an evaluation again by their recorded actions, and compare what is measured.

    The policies themselves are not needed. Episodes that failed are left out.

    Exit status 1: an episode was not reproduced.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.cli.verdicts import conclude
    from mlgo_gym.evaluation.episode_result import DONE
    from mlgo_gym.evaluation.result import load_result
    from mlgo_gym.trajectories import validate as make_again

    finished = sum(episode.status == DONE for episode in load_result(folder).episodes)
    with progress_over(finished, "Episodes") as advance:
        verdicts = make_again(folder, corpus=corpus, clang=clang, trust=trust, progress=lambda _: advance())
    conclude(verdicts, as_json)
