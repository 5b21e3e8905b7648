"""`mlgo-gym replay`: run a trace again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.trust import TrustOption


def replay(
    folder: Annotated[Path, typer.Argument(help="The --output of `trace`, or a recipe that `search` wrote.")],
    *,
    corpus: Annotated[str | None, typer.Option(help="Where the corpus is now.", show_default="where it was")] = None,
    clang: Annotated[str | None, typer.Option(help="The clang to use, of the version that made the trace.")] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the episodes of a trace, or a recipe, again, and compare what is measured with what was.

    The answers of a trace are sent ahead, so that clang never waits. A recipe
    is compiled from the bitcode that lies beside it, unless a corpus is named.

    Exit status 1: an episode was not reproduced.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.cli.verdicts import conclude
    from mlgo_gym.trajectories import replay as run_again
    from mlgo_gym.trajectories.trace_folder import read_trace

    if folder.is_file():
        _replay_recipe(folder, corpus, clang, trust, as_json)
        return
    with progress_over(len(read_trace(folder)[1]), "Episodes") as advance:
        verdicts = run_again(folder, corpus=corpus, clang=clang, trust=trust, progress=lambda _: advance())
    conclude(verdicts, as_json)


def _replay_recipe(path: Path, corpus: str | None, clang: str | None, trust: bool, as_json: bool) -> None:
    from mlgo_gym.deploy.recipe_folder import verify_recipe
    from mlgo_gym.envs import InlineEnv
    from mlgo_gym.errors import MlgoError
    from mlgo_gym.llvm.toolchain import find_toolchain
    from mlgo_gym.search.recipe_making import replay_recipe
    from mlgo_gym.storage.recipe import read_recipe

    recipe = read_recipe(path)
    if corpus is not None:
        replay_recipe(InlineEnv(corpus=corpus, clang=clang, trust=trust), recipe)
    elif problem := verify_recipe(path, recipe, find_toolchain(clang)):
        raise MlgoError(f"{path}: {problem}; search again, or name the corpus that has it with --corpus")
    show(
        as_json,
        {"module": recipe.module, "text": recipe.text, "change": recipe.change},
        f"{recipe.module}: {recipe.text} bytes, {recipe.change:+.2%} against clang, as the recipe says",
    )
